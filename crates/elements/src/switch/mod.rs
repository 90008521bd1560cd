mod bypass;
mod hash_switch;
pub mod hub;
mod input_switch;
mod pcp_switch;
mod pull_switch;
mod random_sample;
mod random_switch;
mod round_robin_switch;
mod selected_port;
mod simple_pull_switch;
mod static_pull_switch;
mod static_switch;
mod suppressor;
#[expect(clippy::module_inception, reason = "a file is named after its class")]
mod switch;

use engine::element::Class;

/// The folder's classes.
pub const CLASSES: &[Class] = &[
    Class::of::<bypass::Bypass>(),
    Class::of::<hash_switch::HashSwitch>(),
    Class::of::<hub::Hub>(),
    Class::of::<input_switch::InputSwitch>(),
    Class::of::<pcp_switch::PcpSwitch>(),
    Class::of::<pull_switch::PullSwitch>(),
    Class::of::<random_sample::RandomSample>(),
    Class::of::<random_switch::RandomSwitch>(),
    Class::of::<round_robin_switch::RoundRobinSwitch>(),
    Class::of::<simple_pull_switch::SimplePullSwitch>(),
    Class::of::<static_pull_switch::StaticPullSwitch>(),
    Class::of::<static_switch::StaticSwitch>(),
    Class::of::<suppressor::Suppressor>(),
    Class::of::<switch::Switch>(),
];
