// Package damage damages the session files of agents in the ways that crashes, disks, editors, programs
// that synchronize files, and other programs do. A test of repairs makes a session with known facts,
// damages it, and asks the agent which facts it still sends to the model.
package damage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// Line is a line of a session file.
type Line struct {
	Text []byte // with its newline
	// Facts are the facts in the line's message that the model receives. A line that damage made
	// unreadable has none.
	Facts []string
}

// File is a session file.
type File struct {
	Lines []Line
	Order []string // all facts in the order in which the model got them
	Rand  *rand.Rand

	// IsSpoiled is set if the file has a line whose message is lost.
	IsSpoiled bool
	// IsUnnamed is set if a message lost its id.
	IsUnnamed bool
}

// fact matches a fact. A fact is one word, and each fact is in one message only.
var fact = regexp.MustCompile(`fact-[a-z0-9]+`)

// Facts returns the facts in a text, in their order.
func Facts(text []byte) (out []string) {
	for _, word := range fact.FindAll(text, -1) {
		out = append(out, string(word))
	}
	return out
}

// script matches the directive for the fake model in a prompt. The directive contains the facts of other messages.
var script = regexp.MustCompile(` ?<<fake .*?>>`)

// NewFile returns a session file without damage. isMessage reports whether a line is a message that the
// agent sends to the model.
func NewFile(data []byte, isMessage func(line []byte) bool) *File {
	f := &File{}
	for text := range bytes.Lines(script.ReplaceAll(data, nil)) {
		l := Line{Text: bytes.Clone(text)}
		if isMessage(text) {
			for _, word := range Facts(text) {
				if !slices.Contains(f.Order, word) { // the agent also writes results in a second form
					l.Facts, f.Order = append(l.Facts, word), append(f.Order, word)
				}
			}
		}
		f.Lines = append(f.Lines, l)
	}
	return f
}

// Damaged returns a damaged copy of the file, and the name of the damage. The seed chooses the kind of
// damage and its place. Consecutive seeds choose different kinds.
func (f *File) Damaged(kinds []Kind, seed uint64) (name string, damaged *File) {
	k := kinds[seed%uint64(len(kinds))]
	damaged = f.copy(seed)
	k.Do(damaged)
	return k.Name, damaged
}

// copy returns a copy to damage, with a separate source of random numbers.
func (f *File) copy(seed uint64) *File {
	lines := slices.Clone(f.Lines)
	for i := range lines {
		lines[i].Text, lines[i].Facts = bytes.Clone(lines[i].Text), slices.Clone(lines[i].Facts)
	}
	return &File{Lines: lines, Order: slices.Clone(f.Order), Rand: rand.New(rand.NewPCG(seed, 7))}
}

// Equal reports whether two lists have the same facts in the same order. It ignores the order among the
// results of parallel calls, which differ only in their last letter.
func Equal(a, b []string) bool {
	return slices.Equal(ordered(a), ordered(b))
}

// ordered returns the facts, with the facts of parallel calls sorted.
func ordered(facts []string) []string {
	out := slices.Clone(facts)
	for i := 1; i < len(out); i++ {
		last := len(out[i]) - 1
		if strings.Compare(out[i], out[i-1]) < 0 && len(out[i-1]) == len(out[i]) && out[i][:last] == out[i-1][:last] && out[i][last] >= 'a' {
			out[i], out[i-1] = out[i-1], out[i]
		}
	}
	return out
}

// Bytes returns the content of the file.
func (f *File) Bytes() (out []byte) {
	for _, l := range f.Lines {
		out = append(out, l.Text...)
	}
	return out
}

// Left returns the facts that the file still has, in the order in which the model got them.
func (f *File) Left() (out []string) {
	for _, word := range f.Order {
		if slices.ContainsFunc(f.Lines, func(l Line) bool { return slices.Contains(l.Facts, word) }) {
			out = append(out, word)
		}
	}
	return out
}

// Pick returns the index of a random line that matches a pattern. If more than two lines match, it is neither
// the first nor the last of them. Pick panics if no line matches.
func (f *File) Pick(pattern string) int {
	re, found := regexp.MustCompile(pattern), []int(nil)
	for i, l := range f.Lines {
		if re.Match(l.Text) {
			found = append(found, i)
		}
	}
	if len(found) == 0 {
		panic(fmt.Sprintf("damage: no line matches %q", pattern)) // the test has an unsuitable session
	}
	if len(found) > 2 {
		found = found[1 : len(found)-1]
	}
	return found[f.Rand.IntN(len(found))]
}

// Edit picks a line that matches the pattern line, and replaces the first match of pattern in it.
func (f *File) Edit(line, pattern, by string) {
	f.edit(f.Pick(line), pattern, by)
}

// Spoil is Edit for damage that loses the message.
func (f *File) Spoil(line, pattern, by string) {
	i := f.Pick(line)
	f.edit(i, pattern, by)
	f.spoil(i, f.Lines[i].Text)
}

// Blank is Edit for a change that empties the message. An empty message is not damage.
func (f *File) Blank(line, pattern, by string) {
	i := f.Pick(line)
	f.edit(i, pattern, by)
	f.Lines[i].Facts = nil
}

// spoil replaces a line by a text without the line's message.
func (f *File) spoil(i int, text []byte) { f.Lines[i], f.IsSpoiled = Line{Text: text}, true }

func (f *File) edit(i int, pattern, by string) {
	at := regexp.MustCompile(pattern).FindIndex(f.Lines[i].Text)
	if at == nil {
		panic(fmt.Sprintf("damage: %q is not in %s", pattern, f.Lines[i].Text))
	}
	f.Lines[i].Text = slices.Concat(f.Lines[i].Text[:at[0]], []byte(by), f.Lines[i].Text[at[1]:])
}

// Insert adds a line without facts.
func (f *File) Insert(i int, text string) {
	f.Lines = slices.Insert(f.Lines, i, Line{Text: []byte(text)})
}

// Delete removes the lines from i up to k.
func (f *File) Delete(i, k int) { f.Lines = slices.Delete(f.Lines, i, k) }

// Kind is a way to damage a file.
type Kind struct {
	Name string
	Do   func(*File)
}

// Bytes returns the ways to damage a file that do not depend on the content of its lines. message is a
// pattern for lines with messages, and told is a pattern for lines with messages that have facts.
func Bytes(message, told string) []Kind {
	half := func(f *File, i int) []byte {
		n := len(f.Lines[i].Text)
		return f.Lines[i].Text[:n/4+f.Rand.IntN(n/2)]
	}
	return []Kind{
		{"the last line is torn", func(f *File) {
			last := len(f.Lines) - 1
			f.spoil(last, half(f, last))
		}},
		{"the file ends in a torn message", func(f *File) {
			i := f.Pick(message)
			f.spoil(i, half(f, i))
			f.Delete(i+1, len(f.Lines))
		}},
		{"a message is torn", func(f *File) {
			i := f.Pick(message)
			f.spoil(i, append(half(f, i), '\n'))
		}},
		{"a message is torn and the next line follows it", func(f *File) {
			i := f.Pick(message)
			f.spoil(i, half(f, i))
		}},
		{"the beginning is lost", func(f *File) {
			i := f.Pick(message)
			f.spoil(i, f.Lines[i].Text[len(f.Lines[i].Text)/2:])
			f.Delete(0, i)
		}},
		{"a message is lost", func(f *File) {
			i := f.Pick(message)
			f.Delete(i, i+1)
		}},
		{"a block of lines is lost", func(f *File) {
			i := f.Pick(message)
			f.Delete(i, min(i+2+f.Rand.IntN(4), len(f.Lines)-1))
		}},
		{"a message is zeros", func(f *File) {
			i := f.Pick(message)
			f.spoil(i, append(make([]byte, len(f.Lines[i].Text)-1), '\n'))
		}},
		{"zeros precede a message", func(f *File) {
			i := f.Pick(message)
			f.Lines[i].Text = append(make([]byte, 512), f.Lines[i].Text...)
		}},
		{"zeros are inside a message", func(f *File) {
			i := f.Pick(message)
			at := len(half(f, i))
			copy(f.Lines[i].Text[at:], make([]byte, 16))
			f.spoil(i, f.Lines[i].Text)
		}},
		{"zeros follow the end", func(f *File) { f.Lines = append(f.Lines, Line{Text: make([]byte, 4096)}) }},
		{"the whole file is zeros", func(f *File) { f.Lines = []Line{{Text: make([]byte, len(f.Bytes()))}} }},
		{"the file is empty", func(f *File) { f.Lines = nil }},
		{"two lines are glued", func(f *File) {
			i := f.Pick(message)
			f.Lines[i].Text = bytes.TrimSuffix(f.Lines[i].Text, []byte{'\n'})
		}},
		{"the last newline is missing", func(f *File) {
			l := &f.Lines[len(f.Lines)-1]
			l.Text = bytes.TrimSuffix(l.Text, []byte{'\n'})
		}},
		{"a byte of a message is not UTF-8", func(f *File) {
			i := f.Pick(told)
			f.edit(i, fact.String(), string(fact.Find(f.Lines[i].Text))+" \xe6\x97")
		}},
		{"a byte of a message has flipped", func(f *File) {
			i := f.Pick(message)
			text := f.Lines[i].Text
			at := bytes.Index(text, []byte(`":"`))
			text[at] ^= 1 << f.Rand.IntN(5)
			f.spoil(i, text)
		}},
		{"a line is no JSON", func(f *File) { f.Insert(f.Pick(message), "Killed\n") }},
		{"a line is null", func(f *File) { f.Insert(f.Pick(message), "null\n") }},
		{"a line is a number", func(f *File) { f.Insert(f.Pick(message), "0\n") }},
		{"a line is a text", func(f *File) { f.Insert(f.Pick(message), "\"text\"\n") }},
		{"a line is an array", func(f *File) { f.Insert(f.Pick(message), "[]\n") }},
		{"a line is an empty object", func(f *File) { f.Insert(f.Pick(message), "{}\n") }},
		{"the lines end in CRLF", func(f *File) {
			for i, l := range f.Lines {
				f.Lines[i].Text = append(bytes.TrimSuffix(l.Text, []byte{'\n'}), "\r\n"...)
			}
		}},
		{"the file begins with a byte order mark", func(f *File) { f.Lines[0].Text = append([]byte("\xef\xbb\xbf"), f.Lines[0].Text...) }},
		{"the lines are reversed", func(f *File) { slices.Reverse(f.Lines) }},
		{"the lines are shuffled", func(f *File) {
			f.Rand.Shuffle(len(f.Lines), func(i, k int) { f.Lines[i], f.Lines[k] = f.Lines[k], f.Lines[i] })
		}},
		{"two neighbours are swapped", func(f *File) {
			i := f.Pick(message)
			f.Lines[i], f.Lines[i+1] = f.Lines[i+1], f.Lines[i]
		}},
		{"a message is at the end", func(f *File) {
			i := f.Pick(message)
			l := f.Lines[i]
			f.Delete(i, i+1)
			f.Lines = append(f.Lines, l)
		}},
		{"a message is there twice", func(f *File) {
			i := f.Pick(message)
			f.Lines = slices.Insert(f.Lines, i, f.Lines[i])
		}},
		{"the file is there twice", func(f *File) { f.Lines = append(f.Lines, f.Lines...) }},
		{"the file has the marks of a conflict", func(f *File) {
			i := f.Pick(message)
			f.Insert(i, "<<<<<<< HEAD\n")
			f.Insert(min(i+3, len(f.Lines)), "=======\n")
			f.Insert(min(i+5, len(f.Lines)), ">>>>>>> other\n")
		}},
		{"a message has more than one line", func(f *File) {
			i := f.Pick(message)
			f.edit(i, `,"`, ",\n  \"")
		}},
	}
}
