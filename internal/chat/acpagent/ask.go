package acpagent

import (
	"context"
	"encoding/json"
	"path/filepath"

	acp "github.com/coder/acp-go-sdk"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/agents"
	"github.com/dalsegno/segno/agents/profile"
	"github.com/dalsegno/segno/internal/chat"
)

// The options of a permission request. The protocol has none for edits and replies.
const (
	optionAllow  = "allow"
	optionReject = "reject"
)

// ask asks the client about each call. If the client cancels the turn, the remaining calls
// are rejected. If the client disconnects, they stay open. ask does not offer to run a call
// with a lost result again, because a client that allows everything would run it twice; the
// model learns that its result is unknown.
func (t *updater) ask(ctx context.Context, open []segno.Interrupt) (decisions []segno.Decision, err error) {
	for _, i := range open {
		if i.Reason == segno.ReasonUnknown {
			decisions = append(decisions, segno.Decision{Interrupt: i.ID, Kind: segno.Reject, Actor: "segno agent"})
			continue
		}
		d, err := t.askOne(ctx, i)
		if err != nil {
			return decisions, err
		}
		decisions = append(decisions, d)
	}
	return decisions, nil
}

// askOne asks about one call. A client that does not choose cancels the turn, as the protocol
// defines.
func (t *updater) askOne(ctx context.Context, i segno.Interrupt) (segno.Decision, error) {
	d := segno.Decision{Interrupt: i.ID, Kind: segno.Reject}
	var r acp.RequestPermissionResponse
	if !isStopped(ctx) {
		err := t.server.conn.call(ctx, acp.ClientMethodSessionRequestPermission, t.permission(i), &r)
		if err == nil && r.Outcome.Selected == nil {
			t.stop()
		}
		if err != nil && !isStopped(ctx) {
			return d, err
		}
	}
	switch {
	case isStopped(ctx):
		d.Text = "the turn was stopped"
	case r.Outcome.Selected.OptionId == optionAllow:
		d.Kind = segno.Approve
	}
	return d, nil
}

// permission describes a call in full. A call of an earlier process may be new to the client.
func (t *updater) permission(i segno.Interrupt) acp.RequestPermissionRequest {
	a := t.describeCall(i.Tool, i.Args)
	call := acp.ToolCallUpdate{ToolCallId: t.callOf(messagePlace{thread: i.Thread}, i.Call),
		Title: &a.title, Kind: &a.kind, Status: acp.Ptr(acp.ToolCallStatusPending),
		RawInput: a.input, Content: a.content, Locations: a.locations}
	if i.Question != "" {
		call.Content = append(call.Content, acp.ToolContent(acp.TextBlock(i.Question)))
	}
	return acp.RequestPermissionRequest{SessionId: t.session, ToolCall: call, Options: []acp.PermissionOption{
		{OptionId: optionAllow, Name: "Allow", Kind: acp.PermissionOptionKindAllowOnce},
		{OptionId: optionReject, Name: "Reject", Kind: acp.PermissionOptionKindRejectOnce},
	}}
}

// callInfo is the description of a call for a client.
type callInfo struct {
	title     string
	kind      acp.ToolKind
	input     any
	content   []acp.ToolCallContent
	locations []acp.ToolCallLocation
}

// describeCall describes a call of a tool. For a change to a file, it shows the difference, so
// that the user can judge the change before the tool runs.
func (t *updater) describeCall(tool string, args json.RawMessage) callInfo {
	a := callInfo{title: chat.Call(tool, args), kind: kindOf(tool), input: json.RawMessage(args)}
	if a.kind == "" {
		a.kind = acp.ToolKindOther
	}
	var with struct{ Path, Content, Old, New string }
	if json.Unmarshal(args, &with) != nil || with.Path == "" {
		return a
	}
	file := filepath.Join(t.chat.Dir, filepath.FromSlash(with.Path))
	a.locations = []acp.ToolCallLocation{{Path: file}}
	switch tool {
	case "write_file":
		a.content = []acp.ToolCallContent{acp.ToolDiffContent(file, with.Content)}
	case "edit_file":
		a.content = []acp.ToolCallContent{acp.ToolDiffContent(file, with.New, with.Old)}
	}
	return a
}

// kindOf returns the protocol's kind of a tool. A client chooses an icon by the kind.
func kindOf(tool string) acp.ToolKind {
	kind := agents.Tool(tool).Kind
	if kind == profile.KindWrite {
		return acp.ToolKindEdit
	}
	return acp.ToolKind(kind)
}
