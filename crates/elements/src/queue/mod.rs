mod cross_worker;
mod deadline_queue;
mod front_drop_queue;
mod full_note_queue;
mod kind;
mod mds_deadline_queue;
mod mixed_queue;
mod ms_queue;
mod notifier_queue;
mod overflow;
#[expect(clippy::module_inception, reason = "the class is called Queue")]
mod queue;
mod quick_note_queue;
mod share_queue;
mod share_tree;
mod simple_queue;
mod thread_safe_queue;
mod two_ended;
mod unqueue;

use engine::element::Class;

/// Element classes of this module.
pub const CLASSES: &[Class] = &[
    Class::of::<deadline_queue::DeadlineQueue>(),
    Class::of::<front_drop_queue::FrontDropQueue>(),
    Class::of::<full_note_queue::FullNoteQueue>(),
    Class::of::<mds_deadline_queue::MDSDeadlineQueue>(),
    Class::of::<mixed_queue::MixedQueue>(),
    Class::of::<ms_queue::MSQueue>(),
    Class::of::<notifier_queue::NotifierQueue>(),
    Class::of::<queue::Queue>(),
    Class::of::<quick_note_queue::QuickNoteQueue>(),
    Class::of::<share_queue::ShareQueue>(),
    Class::of::<simple_queue::SimpleQueue>(),
    Class::of::<thread_safe_queue::ThreadSafeQueue>(),
    Class::of::<unqueue::Unqueue>(),
];
