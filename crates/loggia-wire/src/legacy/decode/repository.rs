//! `context.repositoryUrl` and the members that go with it. Only their shape is checked; whether a
//! repository may be cloned is decided elsewhere, and the directory is checked after cloning.

use loggia_core::Repository;

use crate::intent::RepositoryFields;
use crate::read::{Fields, Read, violation};

/// The members of a context that are about the repository.
pub const MEMBERS: &[&str] = &[URL, "branch", "revision", "commit", "shallow", "targetDirectory"];
const URL: &str = "repositoryUrl";
const SCHEMES: &[&str] = &["https", "http", "ssh", "git", "file"];
const URL_LIMIT: usize = 2048;
const REVISION_LIMIT: usize = 256;

pub fn read(context: &Fields<'_>) -> Read<Option<Repository>> {
    let Some(url) = context.text(URL)? else { return Ok(None) };
    check_url(url).map_err(|why| violation(context.path(URL), why))?;
    Ok(Some(Repository {
        url: url.to_owned(),
        revision: revision(context)?,
        shallow: context.flag("shallow")?.unwrap_or(false),
        directory: context.owned_text("targetDirectory")?,
    }))
}

/// `scheme://host/path`: nothing that git would read as an option, a command or a secret.
fn check_url(url: &str) -> Result<(), &'static str> {
    if url.len() > URL_LIMIT {
        return Err("must have at most 2048 bytes");
    }
    if url.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err("must contain no spaces and no control characters");
    }
    const SHAPE: &str = "must be an address such as https://host/path";
    let (scheme, rest) = url.split_once("://").ok_or(SHAPE)?;
    if !SCHEMES.contains(&scheme) {
        return Err(SHAPE);
    }
    let (authority, path) = rest.split_once('/').ok_or(SHAPE)?;
    let (user, host) = authority.rsplit_once('@').map_or((None, authority), |(u, h)| (Some(u), h));
    // For ssh a user name names a service (`git@`); a password is always a secret.
    if user.is_some_and(|user| scheme != "ssh" || user.contains(':')) {
        return Err("must contain no credentials");
    }
    let dashed = |part: &str| part.starts_with('-');
    if dashed(host) || user.is_some_and(dashed) || (host.is_empty() && scheme != "file") {
        return Err(SHAPE);
    }
    if path.is_empty() { Err(SHAPE) } else { Ok(()) }
}

/// The paths of the members, for errors.
pub fn fields(context: &Fields<'_>) -> RepositoryFields {
    let named = REVISIONS.iter().find(|name| context.get(name).is_some());
    RepositoryFields::below(context.at(), URL, named.unwrap_or(&"revision"))
}

const REVISIONS: [&str; 3] = ["revision", "branch", "commit"];

/// The revision, under any of its three names.
fn revision(context: &Fields<'_>) -> Read<Option<String>> {
    let mut found: Option<(&str, &str)> = None;
    for name in REVISIONS {
        let Some(text) = context.text(name)? else { continue };
        if let Some((other, given)) = found
            && given != text
        {
            return Err(violation(context.path(name), format!("must not differ from '{other}'")));
        }
        let odd = |c: char| c.is_control() || c.is_whitespace();
        if !(1..=REVISION_LIMIT).contains(&text.len())
            || text.starts_with('-')
            || text.contains(odd)
        {
            let why = "must be the name of a branch, a tag or a commit";
            return Err(violation(context.path(name), why));
        }
        found = Some((name, text));
    }
    Ok(found.map(|(_, text)| text.to_owned()))
}
