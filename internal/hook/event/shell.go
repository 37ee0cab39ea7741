package event

import (
	"path"
	"slices"
	"strings"
)

// shellTargets returns the absolute paths, and paths below ~, that a shell command certainly
// writes: targets of redirections, and arguments of commands like rm and cp. It expands nothing. It
// leaves out words with a variable, a substitution or a pattern, and the effects of scripts and
// interpreters.
func shellTargets(command string) []string {
	l := shellLexer{text: command}
	var targets, words []string
	isTarget := false
	for {
		kind, word := l.next()
		switch {
		case kind == shellWord && isTarget:
			targets, isTarget = append(targets, word), false
		case kind == shellWord:
			words = append(words, word)
		case kind == shellOutput:
			isTarget = true
		case kind == shellInput:
			l.next() // skips the input file
		default:
			targets, words, isTarget = append(targets, writtenArgs(words)...), nil, false
		}
		if kind == shellEnd {
			return slices.DeleteFunc(targets, func(s string) bool { return !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "~/") })
		}
	}
}

// writtenArgs returns the arguments of a simple command that the command writes.
func writtenArgs(words []string) []string {
	isPrefix := func(word string) bool {
		return slices.Contains([]string{"sudo", "env", "nohup", "time", "command", "exec", "if", "then", "else", "elif", "while", "until", "do", "!", "{"}, word)
	}
	for len(words) > 0 && (isPrefix(words[0]) || isAssignment(words[0])) {
		words = words[1:]
	}
	if len(words) < 2 {
		return nil
	}
	var args []string
	inPlace := false
	for _, w := range words[1:] {
		if strings.HasPrefix(w, "-") {
			inPlace = inPlace || strings.HasPrefix(w, "-i") || strings.HasPrefix(w, "--in-place")
			continue
		}
		args = append(args, w)
	}
	switch path.Base(words[0]) {
	case "rm", "rmdir", "unlink", "mv", "touch", "mkdir", "tee", "truncate", "shred", "chmod", "chown":
		return args
	case "cp", "ln", "install", "rsync":
		return args[max(0, len(args)-1):]
	case "sed", "perl":
		if inPlace {
			return args
		}
	}
	return nil
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && !strings.ContainsAny(name, "/.-")
}

// shellKind is the kind of a token of a shell command.
type shellKind int

const (
	shellEnd    shellKind = iota
	shellWord             // a word; its text is "" if the shell would expand it
	shellOutput           // >, >>, >|, &>
	shellInput            // <, <<<
	shellBreak            // the end of a simple command
)

// shellLexer splits the text of a shell command into tokens.
type shellLexer struct {
	text     string
	at       int
	hereDocs []string // delimiters of here-documents that begin after this line
}

// next returns the next token, with the text of a word.
func (l *shellLexer) next() (shellKind, string) {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch c := rest[0]; {
		case strings.IndexByte(" \t\r", c) >= 0:
			l.skip(" \t\r")
		case strings.HasPrefix(rest, "\\\n"):
			l.at += 2
		case c == '#':
			comment, _, _ := strings.Cut(rest, "\n")
			l.at += len(comment)
		case c == '\n':
			l.at++
			l.skipHereDocuments()
			return shellBreak, ""
		case strings.IndexByte(";|()`", c) >= 0, c == '&' && !strings.HasPrefix(rest, "&>"):
			l.at++
			return shellBreak, ""
		case strings.IndexByte("<>&", c) >= 0:
			if op := l.skip("<>&|"); strings.Contains(op, ">") {
				return shellOutput, ""
			} else if op != "<<" {
				return shellInput, ""
			}
			l.skip("- \t")
			l.hereDocs = append(l.hereDocs, l.word())
		default:
			word := l.word()
			isFileNumber := strings.Trim(word, "0123456789") == "" && l.at < len(l.text) && strings.IndexByte("<>", l.text[l.at]) >= 0
			if !isFileNumber {
				return shellWord, word
			}
		}
	}
	return shellEnd, ""
}

// skip skips the next characters that are in a set, and returns them.
func (l *shellLexer) skip(set string) string {
	rest := l.text[l.at:]
	skipped := rest[:len(rest)-len(strings.TrimLeft(rest, set))]
	l.at += len(skipped)
	return skipped
}

// skipHereDocuments skips the here-documents that begin at this line.
func (l *shellLexer) skipHereDocuments() {
	for _, end := range l.hereDocs {
		for l.at < len(l.text) {
			line, _, _ := strings.Cut(l.text[l.at:], "\n")
			l.at = min(len(l.text), l.at+len(line)+1)
			if strings.TrimLeft(line, "\t") == end {
				break
			}
		}
	}
	l.hereDocs = nil
}

// word reads a word. It returns "" for a word that the shell would expand.
func (l *shellLexer) word() string {
	var b strings.Builder
	expands := false
	var quote byte
	for ; l.at < len(l.text); l.at++ {
		c := l.text[l.at]
		if quote == 0 && strings.IndexByte(" \t\r\n;|()<>&`", c) >= 0 {
			break
		}
		switch {
		case quote != 0 && c == quote:
			quote = 0
			continue
		case quote == '\'':
		case c == '\\' && l.at+1 < len(l.text):
			l.at++
			c = l.text[l.at]
		case c == '$', c == '`':
			expands = true
		case quote == '"':
		case c == '\'' || c == '"':
			quote = c
			continue
		case strings.IndexByte("*?[{", c) >= 0:
			expands = true
		}
		b.WriteByte(c)
	}
	if expands {
		return ""
	}
	return b.String()
}
