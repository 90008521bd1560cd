//! Arguments that name another element of the router.

use arguments::Args;

/// Full name of the element that a keyword names. The element must be of one of `classes`; `what` describes them in
/// words.
pub fn named(
    args: &mut Args,
    (keyword, doc): (&'static str, &'static str),
    classes: &[&str],
    what: &str,
) -> Option<String> {
    let name: String = args.key_maybe(keyword, doc)?;
    let peer = args.peer(&name).filter(|p| classes.contains(&p.class()));
    if peer.is_none() {
        args.error_in_whole(
            format!("{keyword} must be an {what}, not `{name}`"),
            format!("name one of the class {}", classes.join(" or ")),
        );
    }
    peer.map(|peer| peer.name().to_owned())
}
