//! `ashlar man` and `ashlar completions`

use super::{Done, print_as_it_is};
use crate::cli::Cli;
use clap::CommandFactory;
use std::path::Path;

/// The manual pages: `ashlar(1)` and one for each subcommand.
pub(crate) fn man(folder: Option<&Path>) -> Done {
    let mut root = Cli::command();
    root.build();
    let mut commands = vec![root.clone()];
    let subcommands = root
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help");
    commands.extend(subcommands.map(|sub| {
        let name = format!("ashlar-{}", sub.get_name());
        sub.clone().display_name(name)
    }));
    for command in commands {
        let page = clap_mangen::Man::new(command);
        let mut text = Vec::new();
        page.render(&mut text).map_err(|e| e.to_string())?;
        match folder {
            None => print_as_it_is(&String::from_utf8_lossy(&text))?,
            Some(folder) => {
                let file = folder.join(page.get_filename());
                std::fs::create_dir_all(folder)
                    .and_then(|()| std::fs::write(&file, text))
                    .map_err(|e| format!("cannot write {}: {e}", file.display()))?;
            }
        }
    }
    Ok(())
}

/// Prints the code with which a shell completes this program's command line. The code asks the program, which knows the
/// elements and handlers of the running router.
pub(crate) fn completions(shell: clap_complete::Shell) -> Done {
    let shells = clap_complete::env::Shells::builtins();
    let shell = shell.to_string();
    let shell = shells
        .completer(&shell)
        .ok_or_else(|| format!("there are no completions for {shell}"))?;
    let (mut text, name) = (Vec::new(), super::name());
    shell
        .write_registration("COMPLETE", &name, &name, &name, &mut text)
        .map_err(|e| e.to_string())?;
    print_as_it_is(&String::from_utf8_lossy(&text))
}
