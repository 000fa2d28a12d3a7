//! For any untrusted text at any size: every line fits, contains no control characters, and the
//! screen can be drawn.

use loggia_core::Cell;
use loggia_testkit::terminal::is_safe;
use loggia_tui::theme::{Background, Depth, Theme};
use loggia_tui::wrap::spans_width;
use proptest::prelude::*;

use super::generate::any_cell;
use super::snapshot_text::{Screen, lines};
use super::storm::storm;

/// A key in the transcript view, or an event.
#[derive(Debug, Clone)]
enum Act {
    Up(usize),
    Down(usize),
    PageUp,
    PageDown,
    Top,
    Bottom,
    Toggle(usize),
    ToggleRow(usize),
    ExpandAll(bool),
    FocusNext,
    FocusPrevious,
    Search(String),
    Next,
    Previous,
    Resize(u16, u16),
    Grow(usize),
    Measure,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (0usize..30).prop_map(Act::Up),
        (0usize..30).prop_map(Act::Down),
        Just(Act::PageUp),
        Just(Act::PageDown),
        Just(Act::Top),
        Just(Act::Bottom),
        (0usize..12).prop_map(Act::Toggle),
        (0usize..12).prop_map(Act::ToggleRow),
        any::<bool>().prop_map(Act::ExpandAll),
        Just(Act::FocusNext),
        Just(Act::FocusPrevious),
        "[a-z]{0,2}".prop_map(Act::Search),
        Just(Act::Next),
        Just(Act::Previous),
        (1u16..60, 1u16..20).prop_map(|(width, height)| Act::Resize(width, height)),
        (1usize..4).prop_map(Act::Grow),
        Just(Act::Measure),
    ]
}

fn perform(screen: &mut Screen, cells: &[Cell], act: &Act) {
    if let Act::Resize(width, height) = act {
        (screen.width, screen.height) = (*width, *height);
    }
    screen.act(cells, |pager, scene| match act {
        Act::Up(lines) => pager.scroll_up(scene, *lines),
        Act::Down(lines) => pager.scroll_down(scene, *lines),
        Act::PageUp => pager.page_up(scene),
        Act::PageDown => pager.page_down(scene),
        Act::Top => pager.to_top(),
        Act::Bottom => pager.to_bottom(),
        Act::Toggle(cell) => pager.toggle(scene, *cell),
        Act::ToggleRow(row) => {
            if let Some(cell) = pager.cell_at(scene, *row) {
                pager.toggle(scene, cell);
            }
        }
        Act::ExpandAll(expanded) => pager.expand_all(scene, *expanded),
        Act::FocusNext => pager.focus_next(scene),
        Act::FocusPrevious => pager.focus_previous(scene),
        Act::Search(text) => {
            pager.begin_search(scene);
            pager.search(scene, text);
        }
        Act::Next => drop(pager.search_next(scene)),
        Act::Previous => drop(pager.search_previous(scene)),
        Act::Measure => drop(pager.measure(scene, 3)),
        Act::Resize(..) | Act::Grow(_) => {}
    });
}

proptest! {
    #[test]
    fn the_screen_always_shows_the_intended_frame(
        bytes in prop::collection::vec(any::<u8>(), 0..1500),
    ) {
        storm(&bytes);
    }

    #[test]
    fn every_cell_fits_and_is_safe(cell in any_cell(), width in 1usize..140, expanded: bool) {
        let theme = Theme::new(Depth::Indexed, Background::Light);
        for line in lines(&cell, width, expanded, &theme) {
            prop_assert!(spans_width(&line.spans) <= width, "{line:?}");
            for span in &line.spans {
                prop_assert!(is_safe(&span.content), "{:?}", span.content);
            }
        }
    }

    #[test]
    fn the_screen_can_always_be_drawn(
        all in prop::collection::vec(any_cell(), 1..12),
        acts in prop::collection::vec(act(), 1..16),
        size in (1u16..60, 1u16..20),
    ) {
        let mut screen = Screen::new(size.0, size.1);
        let mut count = 1;
        for act in &acts {
            if let Act::Grow(more) = act {
                count = (count + more).min(all.len());
            }
            let cells = &all[..count];
            perform(&mut screen, cells, act);
            for row in screen.rows(cells) {
                prop_assert!(is_safe(&row), "{row:?}");
            }
            let position = screen.pager.position();
            prop_assert!(position.line <= position.total);
        }
    }

    /// Earlier drawing has no effect: a used pager shows the same as a new one.
    #[test]
    fn the_end_looks_the_same_however_one_came_there(
        all in prop::collection::vec(any_cell(), 1..10),
        acts in prop::collection::vec(act(), 0..10),
        size in (10u16..60, 3u16..20),
    ) {
        let mut screen = Screen::new(size.0, size.1);
        let mut count = 1;
        for act in acts.iter().filter(|act| !matches!(act, Act::Toggle(_) | Act::ToggleRow(_)
            | Act::ExpandAll(_) | Act::Search(_) | Act::Next | Act::Previous)) {
            if let Act::Grow(more) = act {
                count = (count + more).min(all.len());
            }
            perform(&mut screen, &all[..count], act);
            screen.rows(&all[..count]);
        }
        (screen.width, screen.height) = size;
        screen.pager.to_bottom();
        screen.pager.clear_focus();
        prop_assert_eq!(screen.rows(&all), Screen::new(size.0, size.1).rows(&all));
    }

    /// The screen is a window over all lines at every position.
    #[test]
    fn the_screen_is_a_window(
        cells in prop::collection::vec(any_cell(), 1..10),
        steps in prop::collection::vec(-20isize..20, 1..8),
        size in (10u16..60, 1u16..12),
    ) {
        let mut tall = Screen::new(size.0, 2_000);
        let all = tall.rows(&cells);
        let total = tall.pager.position().total;
        prop_assume!(total < 2_000);
        let height = usize::from(size.1);
        let end = total.saturating_sub(height);
        let mut screen = Screen::new(size.0, size.1);
        prop_assert_eq!(&screen.rows(&cells)[..], &all[end..end + height]);
        let mut line = end;
        for step in steps {
            screen.act(&cells, |pager, scene| match step {
                0.. => pager.scroll_down(scene, step.unsigned_abs()),
                _ => pager.scroll_up(scene, step.unsigned_abs()),
            });
            line = line.saturating_add_signed(step).min(end);
            prop_assert_eq!(&screen.rows(&cells)[..], &all[line..line + height]);
            prop_assert_eq!(screen.pager.is_following(), line == end);
        }
    }
}

/// Regressions found by the fuzzer (`cargo xtask fuzz screen`).
#[test]
fn fuzzer_regressions() {
    let findings: &[&[u8]] = &[b"\x00\x00:,2:\x92\x00@`\xd8\xd8\xd8\xa1\x00a\x93::\x7f\x12"];
    for bytes in findings {
        storm(bytes);
    }
}
