//! View of the router around an element, for configurations that depend on other elements.

use crate::router_wide::RouterWide;
use crate::{Args, Names};
use lang::Router;
use std::any::{Any, TypeId};
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// View of the router around elements, for configurations that depend on others.
pub struct RouterView<'a> {
    pub(crate) router: &'a Router,
    by_name: HashMap<&'a str, usize>,
    by_class: HashMap<&'a str, Vec<usize>>,
    /// See [`Args::once`].
    pub(crate) once: RefCell<HashMap<TypeId, Rc<dyn Any>>>,
}

impl<'a> RouterView<'a> {
    /// View of a router, for the arguments of its elements.
    pub fn new(router: &'a Router) -> RouterView<'a> {
        let (mut by_name, mut by_class) = (HashMap::new(), HashMap::<_, Vec<usize>>::new());
        for (at, element) in router.elements.iter().enumerate() {
            by_name.entry(&*element.name).or_insert(at);
            by_class.entry(&*element.class).or_default().push(at);
        }
        RouterView {
            router,
            by_name,
            by_class,
            once: RefCell::default(),
        }
    }
}

/// Another element of the router, named by a configuration.
#[derive(Clone, Copy)]
pub struct Peer<'a> {
    router_view: &'a RouterView<'a>,
    index: usize,
    names: &'a Names,
    router_wide: &'a RouterWide,
}

impl<'a> Peer<'a> {
    /// Full name of the element.
    pub fn name(&self) -> &'a str {
        &self.router_view.router.elements[self.index].name
    }

    /// Class of the element.
    pub fn class(&self) -> &'a str {
        &self.router_view.router.elements[self.index].class
    }

    /// Arguments of the element, parsed with its class's keywords `known`.
    pub fn args(&self, known: &[&'static str]) -> Args<'a> {
        let element = &self.router_view.router.elements[self.index];
        let title = (String::new(), element.span);
        let mut args = Args::new(
            title,
            &element.config,
            self.names,
            self.router_wide,
            known.to_vec(),
        );
        args.set_around(self.router_view, self.index);
        args
    }
}

/// Result of looking up a name in a router.
pub enum Named<'a> {
    /// An element.
    Element(&'a str),
    /// A compound element, with the elements in it. The list is empty if the name means nothing.
    Within(Vec<&'a str>),
}

impl<'a> Args<'a> {
    /// The element called `name` in the compound element around this one, or in an enclosing one. Mistakes in its
    /// arguments are reported with that element, not here.
    pub fn peer(&self, name: &str) -> Option<Peer<'a>> {
        let (around, index) = self.router_view?;
        self.named_elements.borrow_mut().get_or_insert_default();
        let mut scope = around.router.elements[index].name.as_str();
        loop {
            scope = scope.rsplit_once('/').map_or("", |(outer, _)| outer);
            let full = if scope.is_empty() {
                name.to_owned()
            } else {
                format!("{scope}/{name}")
            };
            match around.by_name.get(&*full) {
                Some(&index) => {
                    let mut looked = self.named_elements.borrow_mut();
                    looked.get_or_insert_default().push(index);
                    return Some(Peer {
                        router_view: around,
                        index,
                        names: self.all_names,
                        router_wide: self.router_wide,
                    });
                }
                None if scope.is_empty() => return None,
                None => {}
            }
        }
    }

    /// The full names of the elements that `name` means within the compound element around this one.
    pub fn named(&self, name: &str) -> Named<'a> {
        let Some((around, _)) = self.router_view else {
            return Named::Within(Vec::new());
        };
        self.named_elements.borrow_mut().get_or_insert_default();
        let own = self.element();
        let scope = own.rfind('/').map_or(0, |slash| slash + 1);
        let full = format!("{}{name}", &own[..scope]);
        if let Some(&index) = around.by_name.get(&*full) {
            return Named::Element(&around.router.elements[index].name);
        }
        let elements = around.router.elements.iter().map(|e| e.name.as_str());
        let within = |element: &&str| {
            let rest = element.strip_prefix(&*full);
            rest.is_some_and(|rest| rest.starts_with('/'))
        };
        Named::Within(elements.filter(within).collect())
    }

    /// All elements of a class, in the order of the router.
    pub fn peers(&self, class: &str) -> Vec<Peer<'a>> {
        let Some((around, _)) = self.router_view else {
            return Vec::new();
        };
        self.named_elements.borrow_mut().get_or_insert_default();
        let found = around.by_class.get(class).into_iter().flatten();
        found
            .map(|&index| Peer {
                router_view: around,
                index,
                names: self.all_names,
                router_wide: self.router_wide,
            })
            .collect()
    }
}
