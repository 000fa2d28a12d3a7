//! Maps promises to users (P), attacks (A) and faults (R) to tests. docs/contributing/promises.md
//! explains the numbers. All tests run against the real binary over real sockets, except those in
//! `connections`, which use shorter timeouts, other users and namespaces.

/// Number, file below `crates/`, test.
const SHOWN: &[(&str, &str, &str)] = &[
    ("P1", KILL, "killed_fifty_times_anywhere"),
    ("P1", KILL, "killed_at_every_write_and_every_sync_of_the_store"),
    ("P1", KILL, "killed_at_every_step_of_a_migration"),
    ("P2", MANY_CLIENTS, "of_a_hundred_answers_one_wins_a_thousand_times"),
    ("P2", REPLIES, "of_many_words_one_is_the_answer_and_none_is_a_prompt"),
    ("P2", REPLIES, "free_words_of_the_loser_of_a_race_are_never_a_prompt"),
    ("P3", KILL, "a_killed_session_leaves_no_process_and_the_call_is_interrupted"),
    ("P4", "loggia/tests/e2e/shared.rs", "the_shown_command_is_the_one_that_runs"),
    ("P4", ATTACKS, "a_file_changed_since_the_question_is_not_written"),
    ("P5", "loggia/tests/e2e/shared.rs", "a_cut_stream_is_resumed_exactly_also_after_a_crash"),
    ("P4", REPLIES, "an_edited_approval_continues_with_the_edited_command"),
    ("P5", REPLIES, "a_prompt_of_another_client_brings_no_second_task"),
    (
        "P5",
        "loggia/tests/e2e/bindings.rs",
        "a_prompt_of_another_client_brings_no_second_task_over_grpc",
    ),
    ("P5", "loggia/tests/e2e/push.rs", "a_webhook_gets_one_task_and_then_updates"),
    ("P5", REPLIES, "a_client_that_joins_is_told_of_the_open_question"),
    ("P5", REPLIES, "the_output_of_a_command_that_has_ended_is_streamed"),
    ("P5", "loggia-wire/tests/suite/laws.rs", "every_update_is_in_one_stream"),
    ("P6", FAULTS, "a_reader_that_stalls_costs_nothing_and_loses_nothing"),
    ("P7", BOUNDS, "messages_behind_a_turn_are_bounded_in_bytes"),
    ("P7", BOUNDS, "sessions_share_the_bytes_of_their_principal"),
    ("P7", BOUNDS, "lists_of_large_tasks_come_in_pages_of_bytes"),
    ("P7", BOUNDS, "unread_replies_are_counted"),
    ("P7", BOUNDS, "unread_frames_are_counted"),
    ("P7", BOUNDS, "unread_events_are_counted"),
    ("P7", BOUNDS, "unfinished_messages_are_counted"),
    ("P8", REFUSED, "foreign_hosts_origins_and_forms_are_refused"),
    ("P9", "loggia/tests/e2e/trusting.rs", "it_is_asked_with_all_that_it_would_turn_on"),
    ("P9", "loggia/tests/commands.rs", "a_bad_value_of_a_project_that_is_not_trusted_is_a_notice"),
    ("P10", REFUSED, "a_tool_cannot_answer_its_own_question"),
    ("P10", ATTACKS, "a_command_is_known_by_its_parents"),
    ("P10", IDENTITY, "a_call_that_hides_gets_nothing_with_a_token_either"),
    ("P10", BINDINGS, "a_hidden_process_gets_nothing_unless_the_operator_allows_it"),
    ("P12", FAULTS, "a_late_reader_gets_ten_thousand_events"),
    ("P12", FAULTS, "stopping_ends_streams_in_order_and_keeps_questions"),
    ("P13", "loggia/tests/e2e/secrets.rs", "canaries_are_written_down_nowhere"),
    ("P13", "loggia/tests/e2e/push.rs", "secrets_stay_secret"),
    ("A01", ATTACKS, "another_user_gets_nothing_but_the_card"),
    ("A02", REFUSED, "foreign_hosts_origins_and_forms_are_refused"),
    ("A02", "loggia-server/tests/connections/hosts.rs", "only_our_own_names_are_answered"),
    ("A03", REFUSED, "foreign_hosts_origins_and_forms_are_refused"),
    ("A03", "loggia-server/tests/connections/hosts.rs", "a_page_cannot_open_a_websocket"),
    ("A04", REFUSED, "foreign_hosts_origins_and_forms_are_refused"),
    ("A04", "loggia-server/tests/connections/hosts.rs", "changing_requests_must_be_json"),
    ("A05", ATTACKS, "only_loopback_is_listened_on"),
    ("A07", ATTACKS, "another_user_gets_nothing_but_the_card"),
    ("A07", ATTACKS, "stored_files_are_private"),
    ("A08", TOKENS, "published_credentials_open_nothing_unless_asked_for"),
    ("A09", TOKENS, "guessing_secrets_is_slow_and_locks_out_no_other_client"),
    ("A10", "loggia-server/src/auth/secret.rs", "a_client_that_does_not_exist_costs_as_much"),
    ("A11", TOKENS, "tokens_that_were_not_given_open_nothing"),
    ("A11", ACCESS, "a_token_cannot_choose_its_algorithm_or_key"),
    ("A12", ATTACKS, "clients_cannot_grant_themselves_privileges"),
    ("A12", BINDINGS, "a_client_that_may_not_read_registers_no_webhook"),
    ("A12", HOOK, "a_command_passes_the_hook_as_well"),
    ("A12", HOOK, "tasks_that_clients_name_pass_the_hook_too"),
    ("A12", HOOK, "input_of_an_attached_terminal_passes_the_hook"),
    ("A13", "loggia/tests/e2e/isolation.rs", "another_principals_task_is_not_found"),
    ("A13", "loggia/tests/e2e/isolation.rs", "a_contexts_name_is_its_clients_own"),
    ("A13", FOREIGN, "a_task_of_another_client_takes_as_long_as_none"),
    ("A13", FOREIGN, "a_task_of_another_client_takes_the_time_that_none_takes"),
    ("A13", FOREIGN, "a_name_that_another_client_has_looks_like_a_free_one"),
    ("A15", ATTACKS, "a_token_does_not_help_a_command"),
    ("A15", TOKENS, "a_secret_does_not_help_a_command"),
    ("A15", REFUSED, "a_tool_cannot_answer_its_own_question"),
    ("A15", ATTACKS, "a_command_is_known_by_its_parents"),
    ("A15", IDENTITY, "a_call_that_hides_gets_nothing_with_a_token_either"),
    ("A15", IDENTITY, "a_hidden_process_gets_nothing"),
    ("A15", IDENTITY, "hidden_processes_can_be_allowed_with_a_token"),
    ("A15", BINDINGS, "a_hidden_process_gets_nothing_unless_the_operator_allows_it"),
    ("A15", BINDINGS, "an_allowed_hidden_process_is_refused_while_a_command_runs"),
    ("A15", IDENTITY, "a_thread_of_a_call_that_hides_gets_nothing"),
    ("A16", "loggia/tests/e2e/shared.rs", "the_shown_command_is_the_one_that_runs"),
    ("A17", ATTACKS, "a_file_changed_since_the_question_is_not_written"),
    ("A18", ATTACKS, "bad_repeated_and_late_answers_change_nothing"),
    ("A18", REPLIES, "a_cancellation_with_an_edit_cancels"),
    ("A18", REPLIES, "of_many_words_one_is_the_answer_and_none_is_a_prompt"),
    ("A18", REPLIES, "a_late_answer_names_the_first_one_in_every_dialect"),
    ("A18", REPLIES, "a_late_word_is_late_while_the_next_prompt_of_its_task_runs"),
    ("A18", REPLIES, "words_that_are_said_to_be_an_answer_are_never_a_prompt"),
    ("A18", REPLIES, "free_words_of_the_loser_of_a_race_are_never_a_prompt"),
    ("A18", REPLIES, "after_an_answer_in_free_words_its_client_continues_the_task"),
    (
        "A18",
        "loggia/tests/e2e/lost_connection.rs",
        "a_key_pressed_without_a_connection_answers_nothing_later",
    ),
    ("A18", "loggia/tests/e2e/tui.rs", "a_message_at_a_question_marks_no_answer"),
    (
        "A19",
        "loggia/tests/e2e/hostile.rs",
        "names_that_are_commands_to_a_terminal_are_printed_as_text",
    ),
    ("A20", GRANTED, "a_client_grants_for_its_own_prompts_until_it_is_revoked"),
    ("A20", BINDINGS, "a_choice_of_the_owner_is_refused_on_every_binding"),
    ("A20", GRANTED, "a_configured_rule_is_for_the_root_and_a_denied_command_for_no_form"),
    ("A20", GRANTED, "a_rule_for_git_runs_no_program_that_the_repository_configures"),
    ("A20", GRANTED, "a_rule_for_git_runs_no_hook_and_no_pager_and_is_for_one_directory"),
    ("A23", BOUNDS, "one_client_does_not_fill_the_queue_of_all"),
    ("A25", "loggia/tests/e2e/reserved_dirs.rs", "secrets_below_a_root_are_not_for_tools"),
    (
        "A25",
        "loggia/tests/e2e/reserved_dirs.rs",
        "a_secret_that_was_replaced_through_a_link_is_closed",
    ),
    (
        "A25",
        "loggia/tests/e2e/reserved_dirs.rs",
        "a_secret_of_one_server_is_closed_to_every_process",
    ),
    ("A25", "loggia/tests/e2e/seeds.rs", "protected_files_ask_although_edits_are_allowed"),
    ("A33", "loggia-server/tests/push/egress.rs", "only_the_local_user_names_loopback"),
    ("A33", BINDINGS, "a_webhook_on_loopback_is_refused_to_remote_clients_on_every_binding"),
    ("A38", REFUSED, "malformed_requests_get_the_right_error"),
    ("A38", FLOODS, "malformed_frames_get_the_right_error"),
    ("A39", FLOODS, "size_and_depth_bombs_are_refused_and_leave_nothing"),
    ("A39", BOUNDS, "messages_behind_a_turn_are_bounded_in_bytes"),
    ("A39", BOUNDS, "a_slow_regular_expression_delays_no_other_client"),
    ("A39", BOUNDS, "searches_at_once_are_bounded"),
    ("A40", FLOODS, "slow_heads_and_silent_sockets_are_let_go"),
    ("A41", FLOODS, "floods_on_a_socket_end_that_socket_at_most"),
    ("A41", IDENTITY, "another_user_cannot_use_up_the_connections"),
    ("A41", "loggia-server/tests/connections/slow.rs", "http2_floods_end_their_own_connection"),
    ("A42", TOKENS, "secrets_and_tokens_are_written_down_nowhere"),
    ("A42", "loggia/tests/e2e/secrets.rs", "canaries_are_written_down_nowhere"),
    ("A42", "loggia/tests/e2e/push.rs", "secrets_stay_secret"),
    ("R06", "loggia/tests/e2e/shared.rs", "a_cut_stream_is_resumed_exactly_also_after_a_crash"),
    ("R07", "loggia/tests/e2e/shared.rs", "a_cut_stream_is_resumed_exactly_also_after_a_crash"),
    ("R08", FAULTS, "a_late_reader_gets_ten_thousand_events"),
    ("R09", FAULTS, "a_reader_that_stalls_costs_nothing_and_loses_nothing"),
    ("R10", MANY_CLIENTS, "of_a_hundred_answers_one_wins_a_thousand_times"),
    ("R11", MANY_CLIENTS, "two_thousand_readers_miss_nothing_and_the_writer_does_not_notice"),
    ("R11", FAULTS, "the_server_may_open_many_files_and_its_commands_as_many_as_before"),
    ("R19", FAULTS, "a_full_disk_is_reported_until_space_is_free"),
    ("R19", FAULTS, "a_full_disk_is_reported_at_the_start"),
    ("R19", FAULTS, "tasks_of_closed_sessions_are_read_while_the_disk_is_full"),
    ("R23", ACCESS, "clocks_may_differ_by_thirty_seconds"),
    ("R24", REFUSED, "ports_that_cannot_be_had"),
    ("R31", FAULTS, "stopping_ends_streams_in_order_and_keeps_questions"),
    ("R31", FAULTS, "the_second_signal_ends_it_at_once"),
    ("R33", FAULTS, "running_out_of_files_delays_and_breaks_nothing"),
];

const ATTACKS: &str = "loggia/tests/e2e/attacks.rs";
const TOKENS: &str = "loggia/tests/e2e/oauth_attacks.rs";
const ACCESS: &str = "loggia-server/src/auth/access_token_tests.rs";
const BINDINGS: &str = "loggia/tests/e2e/access.rs";
const REFUSED: &str = "loggia/tests/e2e/refused.rs";
const FLOODS: &str = "loggia/tests/e2e/floods.rs";
const FAULTS: &str = "loggia/tests/e2e/served_faults.rs";
const MANY_CLIENTS: &str = "loggia/tests/e2e/many_clients.rs";
const KILL: &str = "loggia/tests/e2e/kill.rs";
const HOOK: &str = "loggia/tests/e2e/hook.rs";
const REPLIES: &str = "loggia/tests/e2e/replies.rs";
const BOUNDS: &str = "loggia/tests/e2e/bounds.rs";
const GRANTED: &str = "loggia/tests/e2e/granted.rs";
const IDENTITY: &str = "loggia-server/tests/connections/identity.rs";
const FOREIGN: &str = "loggia-server/tests/push/foreign.rs";

/// The covered promises, attacks and faults. P11 needs the sandbox.
const PROMISED: &[&str] = &[
    "P1", "P2", "P3", "P4", "P5", "P6", "P7", "P8", "P9", "P10", "P12", "P13", "A01", "A02", "A03",
    "A04", "A05", "A07", "A08", "A09", "A10", "A11", "A12", "A13", "A15", "A16", "A17", "A18",
    "A19", "A20", "A23", "A25", "A33", "A38", "A39", "A40", "A41", "A42", "R06", "R07", "R08",
    "R09", "R10", "R11", "R19", "R23", "R24", "R31", "R33",
];

#[test]
fn every_promise_has_a_test_and_every_test_is_there() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/contributing/promises.md");
    let page = std::fs::read_to_string(page).unwrap();
    for promise in PROMISED {
        assert!(page.contains(&format!("| {promise} |")), "promises.md does not explain {promise}");
        assert!(SHOWN.iter().any(|(number, _, _)| number == promise), "nothing shows {promise}");
    }
    for (number, file, test) in SHOWN {
        assert!(PROMISED.contains(number), "{number} is not promised");
        let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(&format!("fn {test}(")), "{number}: {file} has no test {test}");
    }
}
