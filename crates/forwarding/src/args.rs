//! Arguments of element classes that name parts of the kernel's image.

use crate::{Interface, Kernel, NoMemory, Routes};
use arguments::Args;
use std::sync::Arc;

/// Maximum length of an interface name, in bytes without the terminating zero (Linux: IFNAMSIZ).
const NAME_MAX: usize = 15;

/// Interface of a name. An invalid name is recorded as an error in `args`.
pub fn interface(args: &mut Args, name: &str) -> Arc<Interface> {
    let wrong = |c: char| c == '/' || c == ':' || c.is_whitespace();
    if name.is_empty()
        || name.len() > NAME_MAX
        || name.contains(wrong)
        || [".", ".."].contains(&name)
    {
        args.error_in_whole(
            format!("`{name}` cannot be an interface of Linux"),
            format!("its name has 1 to {NAME_MAX} characters, and no space, slash or colon"),
        );
    }
    let kernel = args.router_wide::<Kernel>();
    kernel.interface(name).unwrap_or_else(|| {
        args.error_in_whole("there are too many interfaces", "name fewer of them");
        Kernel::default()
            .interface(name)
            .expect("the first has a number")
    })
}

/// Routes of a family; that there is no memory for them is recorded as a mistake.
pub fn with_memory<const N: usize>(
    args: &mut Args,
    routes: Result<&Arc<Routes<N>>, NoMemory>,
) -> Option<Arc<Routes<N>>> {
    let routes = routes.cloned().map_err(|refused| {
        let help = "let the process have more (`ulimit -v`), or do with fewer routing tables";
        args.error_in_whole(refused.to_string(), help);
    });
    routes.ok()
}

/// The kernel's routes of IPv4, for classes elsewhere that want its [own addresses](Routes::own).
pub fn routes4(args: &mut Args) -> Option<Arc<Routes<4>>> {
    let kernel = args.router_wide::<Kernel>();
    with_memory(args, kernel.shared4())
}
