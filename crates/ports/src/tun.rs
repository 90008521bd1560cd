//! `tun:LAYER,SETTINGS`: an interface that the port makes and sets up, by which the kernel's own IP takes
//! part; it goes away with the port.
//!
//! LAYER is `ip` (a TUN interface) or `ether` (a TAP interface). Settings: `name=`, `addr=ADDRESS/LENGTH`,
//! `gateway=ADDRESS` of a default route, `mtu=`, `ether=` address. Queues are the kernel's; each serves
//! both directions, so the port has as many to send by as to receive from.

use crate::scheme::{Parts, PortContext, Resource, Scheme};
use crate::sys;
use crate::tap::{self, Layer};
use engine::port::{PortInfo, PortRequest};
use std::net::Ipv4Addr;
use wire::{EtherAddr, Prefix4};

/// Settings of the interface.
struct Settings {
    layer: Layer,
    name: String,
    address: Option<(Ipv4Addr, Ipv4Addr)>,
    gateway: Option<Ipv4Addr>,
    mtu: Option<usize>,
    mac: Option<EtherAddr>,
}

fn value<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    let wrong = |_| format!("tun: `{value}` cannot be the value of `{name}`");
    value.parse().map_err(wrong)
}

fn settings(text: &str) -> Result<Settings, String> {
    let mut parts = text.split(',');
    let layer = match parts.next() {
        Some("ip") => Layer::Ip,
        Some("ether") => Layer::Ether,
        _ => return Err(format!("tun: `{text}` must begin with `ip` or `ether`")),
    };
    let name = match layer {
        Layer::Ip => "tun%d",
        Layer::Ether => "tap%d",
    };
    let mut settings = Settings {
        layer,
        name: name.to_owned(),
        address: None,
        gateway: None,
        mtu: None,
        mac: None,
    };
    for part in parts {
        match part.split_once('=') {
            Some(("name", name)) => settings.name = name.to_owned(),
            Some(("addr", text)) => {
                let (address, length) = Prefix4::parse_host(text)
                    .map_err(|_| format!("tun: `{text}` must be an address such as 10.0.0.1/8"))?;
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                settings.address = Some((address, Ipv4Addr::from(mask)));
            }
            Some(("gateway", text)) => settings.gateway = Some(value("gateway", text)?),
            Some(("mtu", text)) => settings.mtu = Some(value("mtu", text)?),
            Some(("ether", text)) => settings.mac = Some(value("ether", text)?),
            _ => {
                return Err(format!(
                    "tun: unknown setting `{part}`; there are name=, addr=, gateway=, mtu=, ether="
                ));
            }
        }
    }
    Ok(settings)
}

/// The scheme `tun:`.
pub(crate) struct Tun;

impl Scheme for Tun {
    fn name_syntax(&self) -> &'static str {
        "tun:LAYER,SETTINGS"
    }

    fn resource(&self, _: &str) -> Resource {
        Resource::Tun
    }

    fn probe(&self, text: &str, _: &PortContext<'_>) -> Result<PortInfo, String> {
        let settings = settings(text)?;
        Ok(PortInfo {
            driver: "tun".into(),
            mtu: settings.mtu.unwrap_or(1500),
            ..tap::info()
        })
    }

    fn open(
        &self,
        text: &str,
        request: &PortRequest,
        _: &PortContext<'_>,
    ) -> Result<Parts, String> {
        open(text, request)
    }
}

/// Makes the interface, sets it up and brings it up.
///
/// # Errors
/// A sentence: a wrong setting, no permission, no TUN driver, a name or address that is taken.
fn open(text: &str, request: &PortRequest) -> Result<Parts, String> {
    let settings = settings(text)?;
    let kind = match settings.layer {
        Layer::Ip => libc::IFF_TUN,
        Layer::Ether => libc::IFF_TAP,
    };
    let mut name = settings.name.clone();
    let mut fds = Vec::new();
    let queues = request.rx_queues.max(request.tx_queues).max(1);
    for _ in 0..queues {
        let made = sys::tunnel(&name, kind).map_err(|e| tap::failed("tun", &name, &e))?;
        fds.push(made.0);
        name = made.1;
    }
    let control = sys::control_socket().map_err(|e| tap::failed("tun", &name, &e))?;
    set_up(&settings, &control, &name)?;
    let both = (queues, queues);
    let (_, parts) = tap::parts(settings.layer, &name, control, fds, both)
        .map_err(|e| tap::failed("tun", &name, &e))?;
    Ok(parts)
}

fn set_up(settings: &Settings, control: &std::os::fd::OwnedFd, name: &str) -> Result<(), String> {
    let failed = |what: &str, e: std::io::Error| format!("cannot set {what} of {name}: {e}");
    if let Some(mac) = settings.mac.filter(|_| settings.layer == Layer::Ether) {
        sys::set_mac(control, name, mac.0).map_err(|e| failed("the Ethernet address", e))?;
    }
    if let Some(mtu) = settings.mtu {
        sys::set_mtu(control, name, mtu).map_err(|e| failed("the MTU", e))?;
    }
    if let Some((address, mask)) = settings.address {
        sys::set_address(control, name, address, mask).map_err(|e| failed("the address", e))?;
    }
    sys::set_up(control, name, true).map_err(|e| failed("the state", e))?;
    if let Some(gateway) = settings.gateway {
        sys::default_route(control, gateway).map_err(|e| failed("the default route", e))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_parsed() {
        let read =
            settings("ip,addr=10.0.0.1/8,gateway=10.0.0.2,mtu=1400").expect("they are right");
        assert_eq!((read.layer, read.name.as_str()), (Layer::Ip, "tun%d"));
        let address = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(255, 0, 0, 0));
        assert_eq!((read.address, read.mtu), (Some(address), Some(1400)));
        assert_eq!(read.gateway, Some(Ipv4Addr::new(10, 0, 0, 2)));
    }

    #[test]
    fn wrong_settings_are_refused() {
        for wrong in [
            "",
            "tcp",
            "ip,addr=10.0.0.1/40",
            "ip,mtu=x",
            "ether,speed=9",
        ] {
            assert!(settings(wrong).is_err(), "{wrong}");
        }
    }
}
