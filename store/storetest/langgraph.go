package storetest

import "slices"

// theirs is a clause of LangGraph's own suite, langgraph-checkpoint-conformance
// 0.0.2, by its name there. put is Save here, get_tuple Load and At, list History,
// put_writes a commit of entries that [segno.Fold] reads, delete_thread Delete,
// copy_thread Fork, prune Collect, and a delta channel's history the line itself.
type theirs struct {
	name  string
	here  string           // the rule, or why it has no meaning here
	test  func(f *fixture) // the clause under their name
	see   string           // or the clause of ours that says the same
	wants []ability
}

// langgraph is all 89, in their order.
func langgraph() []theirs {
	return slices.Concat(theirPut(), theirPutWrites(), theirGetTuple(), theirList(), theirDeleteThread(), theirDeleteForRuns(), theirCopyThread(), theirPrune(), theirHistory())
}

// langgraphGroups are those that have a meaning here, each for who can do what it
// wants.
func langgraphGroups() (groups []group) {
	for _, t := range langgraph() {
		if t.test != nil {
			groups = append(groups, group{"langgraph", []clause{{t.name, t.here, t.test}}, t.wants})
		}
	}
	return groups
}

func theirPut() []theirs {
	return []theirs{
		{name: "test_put_returns_config", here: "Save returns the address it was given and the new checkpoint's id", test: putReturnsConfig},
		{name: "test_put_roundtrip", here: "what was saved is loaded, under the same id", test: putRoundtrip},
		{name: "test_put_preserves_channel_values", here: "text, numbers, lists, maps, bytes and nothing are loaded as they were", test: putPreservesChannelValues},
		{name: "test_put_preserves_channel_versions", here: "no meaning: a value has no version of its own; the checkpoint that set it is one"},
		{name: "test_put_preserves_versions_seen", here: "no meaning: what a scheduler has seen is State like all else of its program"},
		{name: "test_put_preserves_metadata", here: "meta and the step are loaded as they were", test: putPreservesMetadata},
		{name: "test_put_root_namespace", here: "the empty namespace is the thread itself", test: putRootNamespace},
		{name: "test_put_child_namespace", here: "a namespace is loaded under its name", test: putChildNamespace},
		{name: "test_put_default_namespace", here: "no meaning: a namespace left out and an empty one are the same Go value"},
		{name: "test_put_multiple_checkpoints_same_thread", here: "each of several saves is loaded by its id", test: putMultipleCheckpoints, wants: []ability{historian}},
		{name: "test_put_multiple_threads_isolated", here: "a thread shows nothing of another", test: putThreadsIsolated},
		{name: "test_put_parent_config", here: "a checkpoint names the one it follows", test: putParentConfig, wants: []ability{historian}},
		{name: "test_put_incremental_channel_update", here: "a save that changes one value leaves the others, and the checkpoint before as it was", test: putIncrementalUpdate, wants: []ability{historian}},
		{name: "test_put_new_channel_added", here: "a value may come later; those before it stay", test: putNewChannel},
		{name: "test_put_channel_removed", here: "a value that was left out is not loaded", test: putChannelRemoved},
		{name: "test_put_preserves_run_id", here: "a run's id is meta, and finds its checkpoints", test: putPreservesRunID, wants: []ability{historian}},
		{name: "test_put_preserves_versions_seen_values", here: "no meaning: what a scheduler has seen is State like all else of its program"},
	}
}

func theirPutWrites() []theirs {
	stored := []ability{onStore}
	return []theirs{
		{name: "test_put_writes_basic", here: "an entry committed after a checkpoint is read with its id, name and body", test: writesBasic, wants: stored},
		{name: "test_put_writes_multiple_writes_same_task", here: "several entries of one commit are each there once", test: writesSameTask, wants: stored},
		{name: "test_put_writes_multiple_tasks", here: "two calls of one tool are two, told apart by their ids", test: writesMultipleTasks, wants: stored},
		{name: "test_put_writes_preserves_task_id", here: "a call's id comes back", test: writesTaskID, wants: stored},
		{name: "test_put_writes_preserves_channel_and_value", here: "a value's name and the value come back", test: writesChannelAndValue, wants: stored},
		{name: "test_put_writes_task_path", here: "a task's path is its place among threads: a subagent's run is a part of its caller's", see: "list/parts"},
		{name: "test_put_writes_idempotent", here: "the same commit of entries twice is there once", test: writesIdempotent, wants: stored},
		{name: "test_put_writes_special_channels", here: "a question and an answer are kept with all they say", test: writesSpecial, wants: stored},
		{name: "test_put_writes_across_namespaces", here: "what waits in a namespace waits in no other", test: writesAcrossNamespaces},
		{name: "test_put_writes_cleared_on_next_checkpoint", here: "a result in the next checkpoint ends what its intent began", test: writesCleared, wants: stored},
	}
}

func theirGetTuple() []theirs {
	past := []ability{historian}
	return []theirs{
		{name: "test_get_tuple_nonexistent_returns_none", here: "a thread that is not there is not found", test: getNonexistent},
		{name: "test_get_tuple_latest_when_no_checkpoint_id", here: "Load is of the newest", test: getLatest},
		{name: "test_get_tuple_specific_checkpoint_id", here: "At is of the one that is named", test: getSpecific, wants: past},
		{name: "test_get_tuple_config_structure", here: "what is loaded knows its thread, namespace and id", test: getConfig},
		{name: "test_get_tuple_checkpoint_fields", here: "what is loaded has its id, step, times and values", test: getFields},
		{name: "test_get_tuple_metadata", here: "what is loaded has its meta", test: getMetadata},
		{name: "test_get_tuple_parent_config", here: "the first checkpoint follows nothing, the second the first", test: getParent, wants: past},
		{name: "test_get_tuple_pending_writes", here: "what waits is loaded with the checkpoint it waits at", test: getPending},
		{name: "test_get_tuple_respects_namespace", here: "Load is of the namespace that is named", test: getNamespace},
		{name: "test_get_tuple_nonexistent_checkpoint_id", here: "a checkpoint that is not there is not found, though the thread is", test: getNonexistentID, wants: past},
	}
}

func theirList() []theirs {
	past := []ability{historian}
	return []theirs{
		{name: "test_list_all", here: "a history has every checkpoint", test: listAll, wants: past},
		{name: "test_list_by_thread", here: "a history has none of another thread", test: listByThread, wants: past},
		{name: "test_list_by_namespace", here: "a namespace has its own history", test: listByNamespace, wants: past},
		{name: "test_list_ordering", here: "a history is newest first", test: listOrdering, wants: past},
		{name: "test_list_metadata_filter_single_key", here: "Meta with one key chooses", test: listFilterSingle, wants: past},
		{name: "test_list_metadata_filter_step", here: "Step chooses", test: listFilterStep, wants: past},
		{name: "test_list_metadata_filter_multiple_keys", here: "Meta with several keys wants all of them", test: listFilterMultiple, wants: past},
		{name: "test_list_metadata_filter_no_match", here: "Meta that nothing has finds nothing", test: listFilterNone, wants: past},
		{name: "test_list_metadata_custom_keys", here: "Meta has any key a program likes", test: listCustomKeys, wants: past},
		{name: "test_list_before", here: "Before is strictly older", test: listBefore, wants: past},
		{name: "test_list_limit", here: "Limit is at most so many", test: listLimit, wants: past},
		{name: "test_list_limit_plus_before", here: "Limit counts what Before left", test: listLimitBefore, wants: past},
		{name: "test_list_combined_thread_and_filter", here: "thread and meta choose together", test: listCombined, wants: past},
		{name: "test_list_empty_result", here: "a thread that is not there has an empty history", test: listEmpty, wants: past},
		{name: "test_list_includes_pending_writes", here: "no meaning: a history is read without states; what waits is loaded with its checkpoint"},
		{name: "test_list_multiple_namespaces", here: "the empty namespace is not all of them", test: listNamespaces, wants: past},
	}
}

func theirDeleteThread() []theirs {
	return []theirs{
		{name: "test_delete_thread_removes_checkpoints", here: "a deleted thread has no checkpoints and no history", test: deleteCheckpoints, wants: []ability{historian}},
		{name: "test_delete_thread_removes_writes", here: "what waited in a deleted thread waits no more", test: deleteWrites},
		{name: "test_delete_thread_removes_all_namespaces", here: "every namespace of a deleted thread is gone", test: deleteNamespaces},
		{name: "test_delete_thread_preserves_other_threads", here: "other threads stay", test: deleteOthersStay},
		{name: "test_delete_thread_nonexistent_noop", here: "deleting what is not there is no error", test: deleteNonexistent},
	}
}

func theirDeleteForRuns() (all []theirs) {
	for _, what := range []string{"single", "multiple", "preserves_other_runs", "removes_writes", "empty_list_noop", "nonexistent_noop", "across_namespaces"} {
		all = append(all, theirs{name: "test_delete_for_runs_" + what, here: "no meaning: a checkpoint is never taken out of its line; a run is undone, or its thread deleted"})
	}
	return all
}

func theirCopyThread() []theirs {
	forks := []ability{historian, traveller, forker}
	return []theirs{
		{name: "test_copy_thread_basic", here: "a fork has all the saves it began after, to go back to", test: copyBasic, wants: forks},
		{name: "test_copy_thread_all_checkpoints", here: "each of them holds what it held", test: copyAll, wants: forks},
		{name: "test_copy_thread_preserves_metadata", here: "meta and step are those of the checkpoint it began at", test: copyMetadata, wants: forks},
		{name: "test_copy_thread_preserves_namespaces", here: "each namespace is forked to one of the same name", test: copyNamespaces, wants: forks},
		{name: "test_copy_thread_preserves_writes", here: "what waited at the checkpoint waits in the fork", test: copyWrites, wants: forks},
		{name: "test_copy_thread_preserves_ordering", here: "going back in a fork meets the source's checkpoints in their order, under their ids", test: copyOrdering, wants: forks},
		{name: "test_copy_thread_source_unchanged", here: "a fork changes nothing of its source", test: copySourceUnchanged, wants: forks},
		{name: "test_copy_thread_nonexistent_source", here: "a fork of nothing is not found and makes nothing", test: copyNonexistent, wants: forks},
	}
}

func theirPrune() []theirs {
	drops := []ability{onStore, collector, clocked}
	const kept = "no meaning: history is not thinned out to the newest: bytes grow with what changes, and what a head reaches stays"
	return []theirs{
		{name: "test_prune_keep_latest_single_thread", here: kept},
		{name: "test_prune_keep_latest_multiple_threads", here: kept},
		{name: "test_prune_keep_latest_across_namespaces", here: "a collection leaves every namespace's newest as it was", test: pruneNamespaces, wants: drops},
		{name: "test_prune_keep_latest_preserves_writes", here: "a collection leaves what waits", test: pruneWrites, wants: drops},
		{name: "test_prune_delete_all", here: "a deleted thread's checkpoints are dropped", test: pruneDeleteAll, wants: drops},
		{name: "test_prune_preserves_other_threads", here: "the checkpoints of other threads stay, under their ids", test: pruneOthersStay, wants: drops},
		{name: "test_prune_empty_list_noop", here: "a collection of an empty store drops nothing", test: pruneNothing, wants: drops},
		{name: "test_prune_nonexistent_noop", here: "no meaning: a collection names no threads; it keeps what is reached"},
	}
}

func theirHistory() []theirs {
	past := []ability{historian}
	return []theirs{
		{name: "test_history_returns_writes_oldest_first", here: "messages come in the order they were saved", test: historyOldestFirst},
		{name: "test_history_seed_is_nearest_snapshot", here: "a rewrite of the messages is where they begin from then on", test: historySeed},
		{name: "test_history_excludes_target_pending_writes", here: "a checkpoint has nothing of what was committed after it", test: historyExcludesTarget, wants: []ability{onStore, historian}},
		{name: "test_history_multi_channel", here: "messages and each value go back as far as each must", test: historyMultiChannel, wants: past},
		{name: "test_history_empty_channels_returns_empty", here: "no meaning: a state is loaded whole; there is no list of channels to leave empty"},
		{name: "test_history_walk_to_root_no_seed", here: "without a rewrite the messages begin at the first save", test: historyToRoot},
		{name: "test_history_migration_plain_value_as_seed", here: "no meaning: there is one form of a value; older formats are each store's own golden files"},
		{name: "test_history_seed_ancestor_own_writes_are_replayed", here: "what a rewrite adds itself counts", test: historySeedOwnWrites},
	}
}
