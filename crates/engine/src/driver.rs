//! Elements that decide when the router stops, and elements that receive signals (Script, DriverManager).

use crate::element::Element;
use crate::element::extension::{config_of, element_of, element_of_mut};
use crate::graph::{Cx, DriverOfClass};

/// A class that handles signals, or requests to stop.
pub trait Driver: Element {
    /// Numbers of the signals that this element wants to receive now. The driver of `ashlar click` delivers them.
    fn signals(&self) -> Vec<i32> {
        Vec::new()
    }

    /// Called when a signal arrives that [`signals`](Self::signals) names; `number` is the signal's number.
    fn signal(&mut self, number: i32, cx: &mut Cx) {
        let _ = (number, cx);
    }

    /// True if an element of this configuration decides when the router ends. Its method
    /// [`stop_asked`](Self::stop_asked) is then called for each stop request, and it ends the router with [`Cx::end`].
    /// Without such an element the first stop request ends the router. Of several such elements, the first one decides.
    fn drives(config: &Self::Config) -> bool {
        let _ = config;
        false
    }

    /// Handles a request to stop the router; called once for each request.
    fn stop_asked(&mut self, cx: &mut Cx) {
        cx.end();
    }
}

/// The extension of a class, for [`Contract::extensions`](crate::element::Contract::extensions).
pub const fn of<E: Driver>() -> DriverOfClass {
    DriverOfClass {
        signals: |element| element_of::<E>(element).signals(),
        signal: |element, number, cx| element_of_mut::<E>(element).signal(number, cx),
        drives: |config| E::drives(&config_of::<E>(config)),
        stop_asked: |element, cx| element_of_mut::<E>(element).stop_asked(cx),
    }
}
