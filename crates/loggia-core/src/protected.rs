//! Protected files: they configure what other programs run or what Loggia allows. One table, grouped by
//! what the files configure; docs/reference/configuration.md shows the same table.
//!
//! Only paths are compared. [`crate::policy`] decides how protected files are treated.

struct ProtectedGroup {
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, here and in the manual"))]
    configures: &'static str,
    /// Paths in any directory, with everything below them. A `*` at one end of a name matches any text;
    /// case is ignored.
    paths: &'static [&'static str],
    /// Subdirectories with these names contain checkouts, which are ordinary projects.
    checkouts: &'static [&'static str],
}

/// Notes for a model (`AGENTS.md`, `CLAUDE.md`, …) are not listed: they are text and configure nothing.
const PROTECTED: &[ProtectedGroup] = &[
    ProtectedGroup {
        configures: "git",
        paths: &[
            ".git",
            ".bare",
            ".gitconfig",
            ".gitmodules",
            ".gitattributes",
            ".hg",
            ".config/git",
            ".githooks",
            ".husky",
            ".pre-commit-config.yaml",
            "lefthook*",
            ".lefthook*",
            ".hgrc",
            ".jj",
            ".config/jj",
            ".sl",
            ".overcommit.yml",
            ".lintstagedrc*",
            ".config/lazygit",
        ],
        checkouts: &[],
    },
    ProtectedGroup {
        configures: "shells and prompts of other programs",
        paths: &[
            ".profile",
            ".bashrc",
            ".bash_profile",
            ".bash_login",
            ".bash_logout",
            ".bash_aliases",
            ".zshrc",
            ".zshenv",
            ".zprofile",
            ".zlogin",
            ".zlogout",
            ".kshrc",
            ".cshrc",
            ".tcshrc",
            ".config/zsh",
            ".config/fish",
            ".inputrc",
            ".envrc",
            ".direnvrc",
            ".config/direnv",
            "mise.toml",
            ".mise.toml",
            ".mise",
            "mise.local.toml",
            ".bash_completion",
            ".pdbrc",
            ".tmux.conf",
            ".config/tmux",
            ".screenrc",
            ".gdbinit",
            ".lldbinit",
            ".psqlrc",
            ".sqliterc",
            ".my.cnf",
            ".irbrc",
            ".pryrc",
            ".Rprofile",
            ".ghci",
            ".curlrc",
            ".wgetrc",
            ".mise.local.toml",
            ".config/mise",
            ".rtx.toml",
            ".config/nushell",
            ".config/starship.toml",
            ".config/kitty",
            ".config/alacritty",
            ".config/ghostty",
            ".config/wezterm",
            ".wezterm.lua",
            ".config/zellij",
            ".ipython",
            ".jupyter",
            ".mongorc.js",
            ".mongoshrc.js",
            ".duckdbrc",
            ".lessfilter",
            ".zimrc",
        ],
        checkouts: &[],
    },
    ProtectedGroup {
        configures: "logins and what starts by itself",
        paths: &[
            ".ssh",
            ".gnupg",
            ".netrc",
            ".aws",
            ".azure",
            ".kube",
            ".docker/config.json",
            ".config/gcloud",
            ".config/gh",
            ".pam_environment",
            ".xprofile",
            ".xinitrc",
            ".xsession*",
            ".config/autostart",
            ".config/systemd",
            ".config/environment.d",
            ".local/share/applications",
            ".local/share/systemd",
            ".git-credentials",
            ".docker/cli-plugins",
            ".config/containers",
            ".config/op",
            ".vault-token",
            ".terraformrc",
            ".local/bin",
            ".config/hypr",
            ".config/i3",
            ".config/sway",
        ],
        checkouts: &[],
    },
    ProtectedGroup {
        configures: "editors",
        paths: &[
            ".vscode",
            "*.code-workspace",
            ".idea",
            ".zed",
            ".devcontainer",
            ".devcontainer.json",
            ".vim",
            ".vimrc",
            ".gvimrc",
            ".exrc",
            ".nvimrc",
            ".nvim.lua",
            ".config/nvim",
            ".emacs*",
            ".config/emacs",
            ".dir-locals.el",
            ".helix",
            ".config/helix",
            ".config/zed",
            ".fleet",
            ".vs",
            ".theia",
            ".lvimrc",
            ".vimrc.local",
            ".config/vim",
            ".config/kak",
            ".config/micro",
            "*.sublime-project",
            ".config/sublime-text",
        ],
        checkouts: &[],
    },
    ProtectedGroup {
        configures: "package managers",
        paths: &[
            ".npmrc",
            ".yarnrc*",
            ".pypirc",
            ".config/pip",
            ".cargo/config*",
            ".cargo/credentials*",
            ".yarn/plugins",
            ".yarn/releases",
            ".yarn/sdks",
            ".pnp.*",
            ".pnpmfile.*",
            "bunfig.toml",
            ".bunfig.toml",
            ".mvn",
            ".m2/settings*",
            ".m2/extensions.xml",
            ".gradle/init*",
            ".sbt",
            ".bazelrc",
            ".bundle/config",
            ".gemrc",
            ".condarc",
            ".config/pypoetry",
            ".config/uv",
            "nuget.config",
            ".cargo/bin",
            ".cargo/env",
        ],
        checkouts: &[],
    },
    ProtectedGroup {
        configures: "CI",
        paths: &[
            ".github",
            ".gitlab",
            ".gitlab-ci.yml",
            ".gitea",
            ".forgejo",
            ".circleci",
            ".buildkite",
            ".travis.yml",
            ".drone.yml",
            ".cirrus.yml",
            ".woodpecker*",
            ".appveyor.yml",
            "appveyor.yml",
            "azure-pipelines*",
            "bitbucket-pipelines.yml",
            "Jenkinsfile*",
            ".azuredevops",
            ".builds",
            ".build.yml",
            ".harness",
            ".semaphore",
            ".teamcity",
            ".tekton",
        ],
        checkouts: &[],
    },
    ProtectedGroup {
        configures: "Loggia and other agents",
        paths: &[
            ".loggia",
            ".config/loggia",
            ".mcp.json",
            ".agents",
            ".aider*",
            ".amazonq",
            ".augment",
            ".claude",
            ".claude.json",
            ".cline*",
            ".codex",
            ".continue",
            ".crush*",
            "crush.json",
            ".cursor",
            ".cursorrules",
            ".gemini",
            ".goose",
            ".config/goose",
            ".junie",
            ".kiro",
            ".opencode",
            "opencode.json*",
            ".config/opencode",
            ".qwen",
            ".roo*",
            ".windsurf",
            ".amp",
            ".config/amp",
            ".antigravity",
            ".codebuddy",
            ".codeium",
            ".config/crush",
            ".config/github-copilot",
            ".copilot",
            ".devin",
            ".factory",
            ".grok",
            ".iflow",
            ".kilo*",
            ".kimi",
            ".openhands",
            ".pi",
            ".plandex*",
            ".qoder",
            ".rovodev",
            ".tabnine",
            ".trae",
            ".vibe",
            ".warp",
            ".zencoder",
        ],
        checkouts: &["worktrees", "clones"],
    },
];

/// Whether a path is protected, or is below a protected path.
fn protects(path: &str) -> bool {
    let parts: Vec<&str> = parts(path).collect();
    found(&parts).next().is_some()
}

/// Whether a file of a workspace is protected. The workspace itself may be below a protected path:
/// `hooks/pre-push` is protected if the workspace is `.git`. `absolute` ends with `path`.
pub(crate) fn protects_file(path: &str, absolute: &str) -> bool {
    let whole: Vec<&str> = parts(absolute).collect();
    let above = whole.len().saturating_sub(parts(path).count());
    let is_checkout = |kind: &ProtectedGroup, end: usize| {
        let between = whole.get(end..above).unwrap_or_default();
        between.iter().any(|part| kind.checkouts.iter().any(|name| fits(name, part)))
    };
    protects(path) || found(&whole).any(|(kind, end)| !is_checkout(kind, end))
}

fn parts(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|part| !part.is_empty())
}

/// Every entry of the table that matches, with the index after the match.
fn found(parts: &[&str]) -> impl Iterator<Item = (&'static ProtectedGroup, usize)> {
    let all = PROTECTED.iter().flat_map(|kind| kind.paths.iter().map(move |path| (kind, *path)));
    all.flat_map(move |(kind, path)| {
        let names: Vec<&str> = path.split('/').collect();
        let count = names.len();
        let same =
            move |window: &[&str]| names.iter().zip(window).all(|(name, part)| fits(name, part));
        let ends = parts.windows(count).enumerate().filter(move |(_, window)| same(window));
        ends.map(move |(start, _)| (kind, start + count)).collect::<Vec<_>>()
    })
}

fn fits(name: &str, part: &str) -> bool {
    let same =
        |part: Option<&str>, name: &str| part.is_some_and(|part| part.eq_ignore_ascii_case(name));
    match (name.strip_prefix('*'), name.strip_suffix('*')) {
        (Some(end), _) => {
            let start = part.len().checked_sub(end.len());
            same(start.and_then(|start| part.get(start..)), end)
        }
        (None, Some(start)) => same(part.get(..start.len()), start),
        (None, None) => part.eq_ignore_ascii_case(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_protects_itself_and_everything_below_in_any_case() {
        for path in PROTECTED.iter().flat_map(|kind| kind.paths) {
            let plain = path.replace('*', "x");
            for path in [plain.clone(), format!("a/b/{plain}"), format!("/h/{plain}/c/d")] {
                assert!(protects(&path), "{path}");
                assert!(protects(&path.to_ascii_uppercase()), "{path}");
            }
        }
    }

    #[test]
    fn similar_paths_are_not_protected() {
        for path in [
            "",
            "/",
            "src/git/config",
            ".gitignore",
            "a.git.rs",
            "my.git",
            ".config/app/git",
            "config/git",
            ".config",
            ".cargo/registry",
            ".local/share",
            "AGENTS.md",
            "CLAUDE.md",
            "emacs",
            "jenkins",
            "a.code-workspaces",
            ".environment",
            "\u{e9}",
        ] {
            assert!(!protects(path), "{path}");
        }
    }

    #[test]
    fn a_workspace_below_a_protected_path_is_protected() {
        for (workspace, path, wanted) in [
            ("/r", "hooks/x", false),
            ("/r/.git", "hooks/x", true),
            ("/r/.GIT/hooks", "x", true),
            ("/r/.git/worktrees/a", "HEAD", true),
            ("/r/.github", "workflows/ci.yml", true),
            ("/r/.vscode", "tasks.json", true),
            ("/h/.config", "git/config", true),
            ("/h/.config", "app/config", false),
            ("/h/.claude", "settings.json", true),
            ("/r", ".opencode/command/x.md", true),
            ("/r", ".opencode/commands/x.md", true),
            ("/r", ".bare/config", true),
            ("/r", "sub/.gdbinit", true),
            ("/r", ".psqlrc", true),
            ("/h", ".kube/config", true),
            ("/h", ".aws/config", true),
            ("/r", ".claude/hooks/x.sh", true),
            ("/r", ".claude/skills/x/SKILL.md", true),
            ("/r", ".loggia/commands/x.md", true),
            ("/r", ".goose/recipes/x.yaml", true),
            ("/r", ".goosehints", false),
            ("/r", ".factory/hooks/x.sh", true),
            ("/r", ".openhands/setup.sh", true),
            ("/r", ".pi/extensions/x.ts", true),
            ("/r", ".kilocode/mcp.json", true),
            ("/r", ".trae/mcp.json", true),
            ("/h", ".copilot/mcp-config.json", true),
            ("/h", ".config/amp/settings.json", true),
            ("/h", ".config/zed/tasks.json", true),
            ("/h", ".config/mise/config.toml", true),
            ("/r", ".mvn/extensions.xml", true),
            ("/r", ".yarn/plugins/x.cjs", true),
            ("/r", ".yarn/releases/yarn.cjs", true),
            ("/r", ".yarn/cache/x.zip", false),
            ("/r", ".yarnrc.yml", true),
            ("/r", ".pip/x", false),
            ("/r", ".pinned", false),
            ("/r/.loggia", "config.toml", true),
            // Checkouts of agents are ordinary projects.
            ("/r/.claude/worktrees/fix", "src/lib.rs", false),
            ("/r/.claude/worktrees/fix", ".git/config", true),
            ("/h/.loggia/state/clones/0199", "src/lib.rs", false),
            ("/h/.claude", "worktrees/../settings.json", true),
        ] {
            let absolute = format!("{workspace}/{path}");
            assert_eq!(protects_file(path, &absolute), wanted, "{workspace} {path}");
        }
    }

    #[test]
    fn the_manual_shows_the_same_table() {
        let manual = include_str!("../../../docs/reference/configuration.md");
        for kind in PROTECTED {
            let names: Vec<String> = kind.paths.iter().map(|path| format!("`{path}`")).collect();
            let row = format!("| {} | {} |", kind.configures, names.join(", "));
            assert!(manual.contains(&row), "docs/reference/configuration.md does not say\n{row}");
        }
    }
}
