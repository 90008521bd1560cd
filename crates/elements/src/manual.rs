/// Manual page: the documentation of the source file that uses this macro, or of the named file.
macro_rules! manual {
    () => {
        include_str!(concat!(env!("SOURCES_BEGIN"), file!()))
    };
    ($file:literal) => {
        engine::manual!($file)
    };
}

pub(crate) use manual;
