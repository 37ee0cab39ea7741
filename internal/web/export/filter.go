package export

import (
	"encoding/json"
	"iter"
	"strings"

	"github.com/dalsegno/segno/secret"
)

// Filter searches exported content for secrets before it leaves the machine.
type Filter struct {
	Scanner *secret.Scanner
	// Allowed reports whether the user allows the value with a fingerprint.
	Allowed func(fingerprint string) bool
	// Redact removes the secrets. If it is not set, they stay, and the caller must discard the
	// output if there are Findings.
	Redact bool

	Findings []secret.Finding
	Missing  []string // the parts that could not be read
	seen     map[string]bool
}

// Found adds findings. It skips duplicates, because a format may read the turns twice.
func (f *Filter) Found(findings ...secret.Finding) {
	for _, x := range findings {
		if !f.Allowed(x.Fingerprint) && f.isNew(x.Path+"\x00"+x.Fingerprint) {
			f.Findings = append(f.Findings, x)
		}
	}
}

func (f *Filter) isNew(key string) bool {
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	defer func() { f.seen[key] = true }()
	return !f.seen[key]
}

// header searches the description of a thread.
func (f *Filter) header(h Header) Header {
	h.Title = f.text("title", h.Title)
	return h
}

// turns yields the turns after searching each.
func (f *Filter) turns(turns iter.Seq2[*Turn, error]) iter.Seq2[*Turn, error] {
	return func(yield func(*Turn, error) bool) {
		for t, err := range turns {
			if err == nil {
				f.turn(t)
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func (f *Filter) turn(t *Turn) {
	if f.hasFinding(t) {
		t.edit(f.text)
		f.removeImages(t)
	}
	for _, x := range t.Missing {
		if text := t.Name + ": " + x; f.isNew(text) {
			f.Missing = append(f.Missing, text)
		}
	}
}

// hasFinding reports whether a turn has a secret. It scans all texts in one pass, because most turns have no secret.
func (f *Filter) hasFinding(t *Turn) bool {
	x := f.Scanner.Start(t.Name)
	t.edit(func(_, text string) string {
		_, _ = x.Write([]byte(text)) // a Scan never fails
		_, _ = x.Write([]byte("\n\n"))
		return text
	})
	found := x.Close()
	for _, image := range t.allImages() {
		found = append(found, f.scanImage(t.Name, image)...)
	}
	for _, x := range found {
		if !f.Allowed(x.Fingerprint) {
			return true
		}
	}
	return false
}

func (f *Filter) scanImage(name string, i *Image) []secret.Finding {
	x := f.Scanner.Start(name + "/image")
	_, _ = x.Write(i.Data)
	return x.Close()
}

// text searches one text, and returns it without secrets if f redacts.
func (f *Filter) text(where, text string) string {
	clean, found := f.Scanner.Redact(where, text, f.Allowed)
	f.Found(found...)
	if f.Redact {
		return clean
	}
	return text
}

// removeImages removes the images that contain a secret.
func (f *Filter) removeImages(t *Turn) {
	for _, i := range t.allImages() {
		for _, x := range f.scanImage(t.Name, i) {
			if f.Allowed(x.Fingerprint) {
				continue
			}
			f.Found(x)
			if f.Redact {
				i.Data = nil
			}
		}
	}
}

// edit replaces each text of the turn by the result of visit. where is a name for the place of the
// text.
func (t *Turn) edit(visit func(where, text string) string) {
	at := func(place string) string { return t.Name + "/" + place }
	edit := func(place string, text *string) { *text = visit(at(place), *text) }
	edit("prompt", &t.Prompt)
	edit("label", &t.Checkpoint.Label)
	for i := range t.Items {
		it := &t.Items[i]
		if it.Call != nil {
			it.Call.edit(at("call"), visit)
			continue
		}
		edit(string(it.Author), &it.Text)
	}
	for i := range t.Subagents {
		for _, c := range t.Subagents[i].Calls {
			c.edit(at("subagent"), visit)
		}
	}
	for i := range t.Missing {
		edit("missing", &t.Missing[i])
	}
	for i := range t.Files {
		t.Files[i].edit(visit, at)
	}
	for _, i := range t.allImages() {
		edit("image", &i.URL)
	}
}

func (c *Call) edit(place string, visit func(where, text string) string) {
	place += " " + c.Tool
	c.Tool = visit(place, c.Tool)
	input := visit(place+" input", string(c.Input))
	if input != string(c.Input) && !json.Valid([]byte(input)) {
		quoted, err := json.Marshal(input)
		if err != nil {
			quoted = []byte(`""`)
		}
		input = string(quoted)
	}
	c.Input = json.RawMessage(input)
	c.Result = visit(place+" result", c.Result)
}

// edit passes a diff to visit as one text, so that visit finds a secret of several lines. It keeps the result only if
// the number of lines is unchanged.
func (f *File) edit(visit func(where, text string) string, at func(place string) string) {
	f.Path = visit(at("path"), f.Path)
	if len(f.Diff) == 0 {
		return
	}
	texts := make([]string, len(f.Diff))
	for i := range f.Diff {
		texts[i] = f.Diff[i].Text
	}
	before := strings.Join(texts, "\n")
	after := visit(at(f.Path), before)
	if after == before {
		return
	}
	if texts = strings.Split(after, "\n"); len(texts) != len(f.Diff) {
		f.Diff, f.Why = nil, after
		return
	}
	for i := range f.Diff {
		f.Diff[i].Text = texts[i]
	}
}

// allImages returns the images of the prompt, the items, the subagents and the files.
func (t *Turn) allImages() (out []*Image) {
	add := func(list []Image) {
		for i := range list {
			out = append(out, &list[i])
		}
	}
	add(t.Images)
	for i := range t.Items {
		add(t.Items[i].Images)
		if t.Items[i].Call != nil {
			add(t.Items[i].Call.Images)
		}
	}
	for i := range t.Subagents {
		for _, c := range t.Subagents[i].Calls {
			add(c.Images)
		}
	}
	for i := range t.Files {
		if t.Files[i].Image != nil {
			out = append(out, t.Files[i].Image)
		}
	}
	return out
}
