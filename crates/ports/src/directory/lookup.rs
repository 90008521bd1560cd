//! Meaning of a port's name: a shared port or link, a name that was given to a device, or a scheme.

use super::Directory;
use crate::scheme::{Inner, Parts, PortContext, Scheme};
use crate::shared_port::SharedPart;
use engine::port::{PortInfo, PortRequest};

/// Look-up of names in a directory. A name may be given to a device around the port of the same name, as in
/// `--port eth0=pace:100k/eth0`. So each step of the look-up that has applied is left out for the inner port.
#[derive(Clone, Copy)]
pub(super) struct Lookup<'d> {
    directory: &'d Directory,
    /// True if shared ports and links are looked up.
    has_joints: bool,
    /// True if names given to devices are looked up.
    has_names: bool,
}

/// A port that was found by its name.
pub(super) struct FoundPort<'n> {
    /// Name of the device.
    pub(super) name: &'n str,
    pub(super) scheme: &'n dyn Scheme,
    /// Part of the name that the scheme reads.
    pub(super) rest: &'n str,
    /// Look-up of an inner port.
    inner: Lookup<'n>,
}

impl FoundPort<'_> {
    fn context(&self) -> PortContext<'_> {
        let directory = self.inner.directory;
        PortContext {
            events: &directory.events,
            namespace: directory.namespace(),
            inner: &self.inner,
        }
    }
}

impl<'d> Lookup<'d> {
    pub(super) fn new(directory: &'d Directory) -> Lookup<'d> {
        Lookup {
            directory,
            has_joints: true,
            has_names: true,
        }
    }

    fn without_shared_ports(self) -> Lookup<'d> {
        Lookup {
            has_joints: false,
            ..self
        }
    }

    fn shared_part(&self, name: &str) -> Result<Option<SharedPart>, String> {
        match self.has_joints {
            true => self.directory.shared_part(name),
            false => Ok(None),
        }
    }

    /// The device for a name that is no shared port or link.
    ///
    /// # Errors
    /// The name's scheme is unknown; a sentence.
    fn device<'n>(self, name: &'n str) -> Result<FoundPort<'n>, String>
    where
        'd: 'n,
    {
        let mut inner = self;
        let mut device = name;
        if self.has_names
            && let Some(given) = self.directory.names.get(name)
        {
            inner.has_names = false;
            device = given;
        }
        if let Some(devargs) = self.directory.vdevs.get(device) {
            return Ok(FoundPort {
                name: device,
                scheme: &self.directory.dpdk,
                rest: devargs,
                inner,
            });
        }
        let schemes = self.directory.schemes();
        let found = schemes
            .iter()
            .find_map(|scheme| Some((*scheme, scheme.strip_scheme(device)?)));
        let Some((scheme, rest)) = found else {
            let forms: Vec<&str> = schemes.iter().map(|scheme| scheme.name_syntax()).collect();
            return Err(format!(
                "no kind of port has names such as {device}: there are {}",
                forms.join(", ")
            ));
        };
        Ok(FoundPort {
            name: device,
            scheme,
            rest,
            inner,
        })
    }

    /// The port that uses a resource: for a port around another one, the inner port. `None` for a shared port, a link,
    /// or an unknown scheme.
    pub(super) fn innermost<'n>(self, name: &'n str) -> Option<FoundPort<'n>>
    where
        'd: 'n,
    {
        let Ok(None) = self.shared_part(name) else {
            return None;
        };
        let found = self.device(name).ok()?;
        match found.scheme.inner_name(found.rest) {
            Some(inside) => found.inner.innermost(inside),
            None => Some(found),
        }
    }

    /// True if the port keeps annotations with the packets sent to it.
    pub(super) fn keeps_annotations(self, name: &str) -> bool {
        if let Ok(Some(SharedPart::Link(_))) = self.shared_part(name) {
            return true; // packets count the links that they cross
        }
        let Ok(found) = self.device(name) else {
            return false;
        };
        let inside = found.scheme.inner_name(found.rest);
        found.scheme.keeps_annotations()
            || inside.is_some_and(|inside| found.inner.keeps_annotations(inside))
    }

    fn probe_device(self, name: &str) -> Result<PortInfo, String> {
        let found = self.device(name)?;
        found.scheme.probe(found.rest, &found.context())
    }
}

impl Inner for Lookup<'_> {
    fn probe(&self, name: &str) -> Result<PortInfo, String> {
        match self.shared_part(name)? {
            Some(shared_part) => {
                shared_part.probe(|device| self.without_shared_ports().probe_device(device))
            }
            None => self.probe_device(name),
        }
    }

    fn open(&self, name: &str, request: &PortRequest) -> Result<Parts, String> {
        if let Some(shared_part) = self.shared_part(name)? {
            return shared_part.open(request, |device| {
                self.without_shared_ports().probe_device(device)
            });
        }
        let found = self.device(name)?;
        found.scheme.open(found.rest, request, &found.context())
    }
}
