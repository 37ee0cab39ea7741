package storetest

import (
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// langGraph maps the tests here, and the reasons for which there is no test here, to the tests of
// LangGraph's conformance suite (langgraph-checkpoint-conformance 0.0.2) that have the same rule.
var langGraph = map[string]string{
	"branch/a branch counts once": "put_writes_idempotent",
	"branch/a failed step resumes with its branches": `
		put_writes_basic put_writes_multiple_writes_same_task put_writes_multiple_tasks put_writes_preserves_task_id
		put_writes_preserves_channel_and_value get_tuple_pending_writes`,
	"branch/namespaces have their own branches": "put_writes_across_namespaces delete_thread_removes_writes",
	"branch/the next save ends the step":        "put_writes_cleared_on_next_checkpoint",
	"collect/a deleted thread":                  "prune_delete_all prune_empty_list_noop",
	"collect/states stay": `
		prune_keep_latest_across_namespaces prune_keep_latest_preserves_writes prune_preserves_other_threads`,
	"fork/a fork is a copy":       "copy_thread_preserves_metadata copy_thread_preserves_writes copy_thread_source_unchanged",
	"fork/refused forks":          "copy_thread_nonexistent_source",
	"fork/undo in a fork":         "copy_thread_basic copy_thread_all_checkpoints copy_thread_preserves_ordering",
	"history/missing checkpoints": "get_tuple_nonexistent_checkpoint_id delete_thread_removes_checkpoints",
	"list/any query of checkpoints": `
		list_metadata_filter_single_key list_metadata_filter_step list_metadata_filter_multiple_keys
		list_metadata_filter_no_match list_metadata_custom_keys`,
	"list/any query of threads":    "put_writes_task_path",
	"saver/any value":              "put_preserves_channel_values",
	"saver/delete missing is fine": "delete_thread_nonexistent_noop",
	"saver/hostile addresses":      "put_multiple_threads_isolated get_tuple_config_structure",
	"saver/messages": `
		history_returns_writes_oldest_first history_seed_is_nearest_snapshot history_walk_to_root_no_seed
		history_seed_ancestor_own_writes_are_replayed`,
	"saver/namespaces are separate": `
		put_root_namespace put_child_namespace get_tuple_respects_namespace delete_thread_removes_all_namespaces
		delete_thread_preserves_other_threads`,
	"saver/nothing there": "get_tuple_nonexistent_returns_none",
	"saver/round trip": `
		put_returns_config put_roundtrip get_tuple_latest_when_no_checkpoint_id get_tuple_checkpoint_fields get_tuple_metadata`,
	"saver/state and meta":             "put_preserves_metadata put_incremental_channel_update put_new_channel_added put_channel_removed",
	"state/an answer is recorded":      "put_writes_special_channels",
	"state/an intent without a result": "history_excludes_target_pending_writes",
	"travel/any journey": `
		put_multiple_checkpoints_same_thread put_parent_config put_preserves_run_id get_tuple_specific_checkpoint_id
		get_tuple_parent_config list_all list_by_thread list_by_namespace list_ordering list_before list_limit
		list_limit_plus_before list_combined_thread_and_filter list_empty_result list_multiple_namespaces
		copy_thread_preserves_namespaces history_multi_channel`,
	"none: a checkpoint is never removed from its line; a run is undone, or its thread is deleted": `
		delete_for_runs_single delete_for_runs_multiple delete_for_runs_preserves_other_runs delete_for_runs_removes_writes
		delete_for_runs_empty_list_noop delete_for_runs_nonexistent_noop delete_for_runs_across_namespaces`,
	"none: a collection has no list of threads":                                      "prune_nonexistent_noop",
	"none: a collection keeps the whole line of a head":                              "prune_keep_latest_single_thread prune_keep_latest_multiple_threads",
	"none: a history has no states; open questions are loaded with their checkpoint": "list_includes_pending_writes",
	"none: a state is loaded as a whole":                                             "history_empty_channels_returns_empty",
	"none: a value has no version, the checkpoint that set it has an id; scheduler data is ordinary State": `
		put_preserves_channel_versions put_preserves_versions_seen put_preserves_versions_seen_values`,
	"none: a value has one format; files of older versions are tested in each store": `
		history_migration_plain_value_as_seed`,
	"none: an omitted namespace and an empty one are the same Go value": "put_default_namespace",
}

// TestLangGraph requires that each of the 89 tests has an existing test here, or a reason.
func TestLangGraph(t *testing.T) {
	tests := map[string]bool{}
	for _, g := range storeGroups() {
		for _, x := range g.tests {
			tests[g.name+"/"+x.name] = true
		}
	}
	n := 0
	for here, names := range langGraph {
		n += len(strings.Fields(names))
		if !tests[here] && !strings.HasPrefix(here, "none: ") {
			t.Errorf("%s: there is no test %q", names, here)
		}
	}
	if n != 89 {
		t.Errorf("%d tests; want 89", n)
	}
}

// TestNamesAreUnique requires that -run selects one test by its full name, except in the groups "watch" and
// "wait".
func TestNamesAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, g := range storeGroups() {
		for _, x := range g.tests {
			name := g.name + "/" + x.name
			if seen[name] || x.rule == "" || x.run == nil {
				t.Errorf("%s: a duplicate, or without a rule", name)
			}
			seen[name] = true
		}
	}
}
