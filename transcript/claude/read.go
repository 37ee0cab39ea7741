package claude

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/jsonscan"
	"github.com/dalsegno/segno/transcript"
	"github.com/dalsegno/segno/transcript/internal/sessionfile"
)

var (
	_ transcript.ConversationReader = (*Transcripts)(nil)
	_ transcript.ConversationWriter = (*Transcripts)(nil)
)

const opRead = "read conversation"

// ReadConversation implements [transcript.ConversationReader]. As the agent does, it leaves out
// calls without a result, errors of the model's server and lists of the agent's own tools.
func (c *Transcripts) ReadConversation(ctx context.Context, p segno.Position, after string, o segno.Objects) (transcript.Conversation, error) {
	var r *reading
	err := sessionfile.FirstCopy(ctx, opRead, string(p.Session), c.copies(opRead, &p, o), func(from sessionfile.CopySource) (readErr, doErr error) {
		r = &reading{p: p, after: after}
		return r.run(ctx, from)
	})
	if err != nil {
		return transcript.Conversation{}, err
	}
	err = c.loseSidecars(ctx, p, o, &r.out)
	return r.out, err
}

// loseSidecars counts the sidecars of a position as lost, because other agents have no equivalent.
func (c *Transcripts) loseSidecars(ctx context.Context, p segno.Position, o segno.Objects, out *transcript.Conversation) error {
	if p.Sidecars.IsZero() || o == nil {
		return nil
	}
	list, err := getSidecars(ctx, o, p.Sidecars)
	for _, s := range list {
		switch {
		case strings.HasPrefix(s.path, "tasks/") && strings.HasSuffix(s.path, ".json"):
			out.Lose(transcript.LostTasks, 1)
		case strings.HasPrefix(s.path, "session/subagents/") && strings.HasSuffix(s.path, ".jsonl"):
			out.Lose(transcript.LostSubagents, 1)
		case strings.HasPrefix(s.path, "file-history/"):
			out.Lose(transcript.LostBackups, 1)
		}
	}
	return err
}

type reading struct {
	p     segno.Position
	after string
	graph *graph
	links map[int]message // connects the records of an answer, by index in graph
	chain []int           // what the model sees, oldest first
	parts map[int]*visible
	out   transcript.Conversation
}

// visible is a record that the model sees.
type visible struct {
	line   int
	time   int64
	answer string   // the id of the message that the record is a block of
	result []string // ids of the calls whose results it has
	out    transcript.Message
}

// run reads the bytes of one copy several times: first their graph, then the content of the records
// on the line to the position.
func (r *reading) run(ctx context.Context, from sessionfile.CopySource) (readErr, doErr error) {
	if readErr = r.readGraph(ctx, from); readErr != nil {
		return readErr, nil
	}
	leaf := r.graph.index(r.p.Leaf)
	if leaf == none {
		return segno.Errorf(segno.KindCorrupt, opRead, string(r.p.Session), "record %s is missing%s", r.p.Leaf, r.graph.firstDamage()), nil
	}
	v := r.graph.load()
	if v.gone[leaf] || v.continuesFrom(leaf) == none {
		// The agent would continue from elsewhere, so a cut has only the records of this line.
		if readErr = r.readLine(ctx, from, leaf); readErr != nil {
			return readErr, nil
		}
		v = r.graph.load()
	}
	head := v.message(r.graph.index(r.p.Leaf))
	if head == none {
		return nil, segno.Errorf(segno.KindInvalid, opRead, string(r.p.Session), "the conversation is empty")
	}
	if err := v.checkChain(head); err != nil {
		return err, nil
	}
	r.chain, _, _ = v.chain(head)
	slices.Reverse(r.chain)
	if r.after != "" {
		at := slices.Index(r.chain, r.graph.index(r.after))
		if at < 0 {
			return nil, segno.Errorf(segno.KindNotFound, opRead, string(r.p.Session), "the model no longer sees record %s", r.after)
		}
		r.chain = r.chain[at+1:]
	}
	if readErr = r.readParts(ctx, from, v); readErr != nil {
		return readErr, nil
	}
	r.build()
	return nil, nil
}

// readGraph reads the graph of all records, and the links between messages.
func (r *reading) readGraph(ctx context.Context, from sessionfile.CopySource) error {
	r.graph, r.links = newGraph(from.Name), map[int]message{}
	r.graph.isWhole = true
	var rec record
	readErr, _ := from.EachLine(ctx, func(l sessionfile.Line) error {
		r.graph.parse(&rec, l)
		r.graph.link(r.links, &rec)
		return nil
	})
	return readErr
}

// readLine replaces the graph by one with only the records that the line to leaf needs.
func (r *reading) readLine(ctx context.Context, from sessionfile.CopySource, leaf int) error {
	keep := r.graph.ancestry(leaf)
	r.graph.addSiblings(keep, r.links)
	names := r.graph.uuids(keep)
	r.graph, r.links = newGraph(from.Name), map[int]message{}
	var rec record
	readErr, _ := from.EachLine(ctx, func(l sessionfile.Line) error {
		if rec.parse(l.Bytes) == nil && rec.belongsTo(names) && rec.kind != kindLastPrompt {
			r.graph.add(&rec, l)
			r.graph.link(r.links, &rec)
		}
		return nil
	})
	return readErr
}

// readParts reads the content of the records of the chain. It also reads the records beside the chain
// that the agent adds: other blocks of the same answers, and the results of parallel calls.
func (r *reading) readParts(ctx context.Context, from sessionfile.CopySource, v *loaded) error {
	wanted := map[int]bool{}
	for _, i := range r.chain {
		wanted[i] = true
	}
	r.graph.addSiblings(wanted, r.links)
	r.parts = map[int]*visible{}
	var rec record
	readErr, _ := from.EachLine(ctx, func(l sessionfile.Line) error {
		if rec.parse(l.Bytes) != nil {
			return nil
		}
		i := r.graph.index(string(rec.uuid))
		if i == none || !wanted[i] || v.gone[i] || r.graph.nodes[i].from != l.Offset {
			return nil
		}
		if c := r.contentOf(&rec); c != nil {
			c.line, c.time = l.Number, r.graph.nodes[i].time
			r.parts[i] = c
		}
		return nil
	})
	return readErr
}

// contentOf returns the content of a record that the model sees, or nil if it sees none.
func (r *reading) contentOf(rec *record) *visible {
	c := &visible{}
	if at, err := time.Parse(time.RFC3339Nano, string(rec.timestamp)); err == nil {
		c.out.Time = at
	}
	switch rec.kind {
	case kindAssistant:
		if string(rec.field("isApiErrorMessage")) == "true" {
			return nil
		}
		c.out.Role, c.answer = transcript.Assistant, jsonscan.Text(field(rec.message, "id"))
		if c.out.Model = jsonscan.Text(field(rec.message, "model")); c.out.Model == "<synthetic>" {
			c.out.Model = ""
		}
	case kindUser:
		c.out.Role = transcript.User
		if part := turnPartOf(rec); part != nil {
			c.out.Prompt = part.role == rolePrompt || part.role == roleCommand
		}
		if words := textOf(field(rec.message, "content")); strings.HasPrefix(words, interruptMark) && !rec.isSubmitted {
			c.out.Parts = []transcript.Part{{Interruption: true}}
			return c
		}
	case kindAttachment:
		return r.attachment(rec, c)
	default:
		return nil
	}
	c.readBlocks(field(rec.message, "content"), &r.out)
	return c
}

// attachment returns a prompt that waited in the agent's queue while a turn ran. Other attachments
// describe the agent's own tools, or have copies of files.
func (r *reading) attachment(rec *record, c *visible) *visible {
	a := rec.field("attachment")
	switch jsonscan.Text(field(a, "type")) {
	case "queued_command":
		c.out.Role = transcript.User
		c.readBlocks(field(a, "prompt"), &r.out)
		return c
	case "file", "directory", "mcp_resource", "pdf_reference", "selected_lines_in_ide":
		r.out.Lose(transcript.LostAttachments, 1)
	}
	return nil
}

// readBlocks reads a text or an array of blocks.
func (c *visible) readBlocks(blocks []byte, lost *transcript.Conversation) {
	if jsonscan.RawText(blocks) != nil {
		c.addText(jsonscan.Text(blocks))
		return
	}
	jsonscan.Elements(blocks, 0, func(at jsonscan.Span) {
		block := at.Of(blocks)
		switch kind := jsonscan.Text(field(block, "type")); kind {
		case "text":
			c.addText(jsonscan.Text(field(block, "text")))
		case "tool_use":
			call := &transcript.Call{ID: jsonscan.Text(field(block, "id")), Name: jsonscan.Text(field(block, "name")), Input: json.RawMessage("{}")}
			if input := field(block, "input"); len(input) > 0 && input[0] == '{' {
				call.Input = slices.Clone(input)
			}
			c.out.Parts = append(c.out.Parts, transcript.Part{Call: call})
		case "tool_result":
			result := &transcript.Result{Call: jsonscan.Text(field(block, "tool_use_id")), IsError: string(field(block, "is_error")) == "true"}
			var inner visible
			inner.readBlocks(field(block, "content"), lost)
			result.Parts = inner.out.Parts
			c.result = append(c.result, result.Call)
			c.out.Parts = append(c.out.Parts, transcript.Part{Result: result})
		case "image":
			c.addImage(field(block, "source"), lost)
		default:
			lost.Lose(lossOf(kind), 1)
		}
	})
}

// lossOf returns the kind of loss for a block that has no form in other agents.
func lossOf(kind string) transcript.Loss {
	switch kind {
	case "thinking", "redacted_thinking":
		return transcript.LostReasoning
	case "document":
		return transcript.LostDocuments
	case "server_tool_use":
		return transcript.LostServerTools
	}
	return transcript.LostOther
}

func (c *visible) addText(text string) {
	if strings.TrimSpace(text) != "" { // the agent does not send blank text
		c.out.Parts = append(c.out.Parts, transcript.Part{Text: text})
	}
}

func (c *visible) addImage(source []byte, lost *transcript.Conversation) {
	image := &transcript.Image{Type: jsonscan.Text(field(source, "media_type")), Data: jsonscan.Text(field(source, "data")), URL: jsonscan.Text(field(source, "url"))}
	if image.Data == "" && image.URL == "" {
		lost.Lose(transcript.LostImages, 1)
		return
	}
	c.out.Parts = append(c.out.Parts, transcript.Part{Image: image})
}

// build joins the blocks of an answer into one message, and the results of its calls into the
// message behind it.
func (r *reading) build() {
	answers, results := r.index()
	done := map[string]bool{}
	for _, i := range r.chain {
		c := r.parts[i]
		switch {
		case c == nil || len(c.result) > 0: // a result follows its calls
		case c.answer == "":
			r.emit(c.out)
		case !done[c.answer]:
			done[c.answer] = true
			m := c.out
			m.Parts = nil
			for _, j := range answers[c.answer] {
				m.Parts = append(m.Parts, r.parts[j].out.Parts...)
			}
			r.emitAnswer(m, results)
		}
	}
}

// foundResult is a result and its place.
type foundResult struct {
	part  transcript.Part
	at    time.Time
	order int
}

// index returns the records of each answer, and the results of calls.
func (r *reading) index() (answers map[string][]int, results map[string]foundResult) {
	answers, results = map[string][]int{}, map[string]foundResult{}
	for order, i := range r.sorted() {
		c := r.parts[i]
		if c.answer != "" {
			answers[c.answer] = append(answers[c.answer], i)
		}
		for _, p := range c.out.Parts {
			if p.Result != nil {
				if _, ok := results[p.Result.Call]; !ok {
					results[p.Result.Call] = foundResult{p, c.out.Time, order}
				}
			}
		}
	}
	return answers, results
}

// emitAnswer adds a message of the model and the results of its calls, in the order in which they
// came. Calls without a result are left out.
func (r *reading) emitAnswer(m transcript.Message, results map[string]foundResult) {
	var found []foundResult
	m.Parts = slices.DeleteFunc(m.Parts, func(p transcript.Part) bool {
		if p.Call == nil {
			return false
		}
		result, ok := results[p.Call.ID]
		if ok {
			found = append(found, result)
			delete(results, p.Call.ID)
		}
		return !ok
	})
	r.emit(m)
	slices.SortStableFunc(found, func(a, b foundResult) int { return cmp.Compare(a.order, b.order) })
	answer := transcript.Message{Role: transcript.User}
	for _, f := range found {
		answer.Time = f.at
		answer.Parts = append(answer.Parts, f.part)
	}
	r.emit(answer)
}

func (r *reading) emit(m transcript.Message) {
	if len(m.Parts) > 0 {
		r.out.Messages = append(r.out.Messages, m)
	}
}

// sorted returns the records in the order in which they were written.
func (r *reading) sorted() []int {
	var all []int
	for i := range r.parts {
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.parts[a].time, r.parts[b].time), cmp.Compare(r.parts[a].line, r.parts[b].line))
	})
	return all
}
