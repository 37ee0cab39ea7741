package event

import (
	"path"
	"slices"
	"strings"
)

// shellTargets returns the absolute paths (and those below ~) that a shell command
// certainly writes, as far as its text shows: targets of redirections and arguments of
// commands like rm and cp. It expands nothing: a word with a variable, a substitution or
// a pattern is left out, and so is what a script or an interpreter does.
func shellTargets(command string) []string {
	l := shellLexer{text: command}
	var targets, words []string
	redirect := false
	for {
		t := l.next()
		switch {
		case t.kind == shellWord && redirect:
			targets, redirect = append(targets, t.text), false
		case t.kind == shellWord:
			words = append(words, t.text)
		case t.kind == shellOutput:
			redirect = true
		case t.kind == shellInput:
			l.next() // what is read
		default:
			targets, words, redirect = append(targets, written(words)...), nil, false
		}
		if t.kind == shellEnd {
			return slices.DeleteFunc(targets, func(s string) bool { return !strings.HasPrefix(s, "/") && !strings.HasPrefix(s, "~/") })
		}
	}
}

// written returns the arguments of a simple command that the command writes.
func written(words []string) []string {
	for len(words) > 0 && (slices.Contains(shellPrefixes, words[0]) || isAssignment(words[0])) {
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

// shellPrefixes are words that may stand before a command's name.
var shellPrefixes = []string{"sudo", "env", "nohup", "time", "command", "exec", "if", "then", "else", "elif", "while", "until", "do", "!", "{"}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && !strings.ContainsAny(name, "/.-")
}

// The kinds of a shell token.
const (
	shellEnd    = iota
	shellWord   // a word; text is "" if the shell would expand it
	shellOutput // >, >>, >|, &>
	shellInput  // <, <<<
	shellBreak  // what ends a simple command
)

type shellToken struct {
	kind int
	text string
}

// shellLexer splits the text of a shell command into tokens.
type shellLexer struct {
	text  string
	at    int
	heres []string // delimiters of here-documents that begin after this line
}

func (l *shellLexer) next() shellToken {
	for l.at < len(l.text) {
		rest := l.text[l.at:]
		switch c := rest[0]; {
		case c == ' ' || c == '\t' || c == '\r':
			l.at++
		case strings.HasPrefix(rest, "\\\n"):
			l.at += 2
		case c == '#':
			l.at += len(rest) - len(strings.TrimLeft(rest, "#"))
			if end := strings.IndexByte(l.text[l.at:], '\n'); end >= 0 {
				l.at += end
			} else {
				l.at = len(l.text)
			}
		case c == '\n':
			l.at++
			l.skipHeres()
			return shellToken{kind: shellBreak}
		case strings.ContainsRune(";|()`", rune(c)):
			l.at++
			return shellToken{kind: shellBreak}
		case c == '&' && !strings.HasPrefix(rest, "&>"):
			l.at++
			return shellToken{kind: shellBreak}
		case strings.ContainsRune("<>&", rune(c)):
			return l.redirection()
		default:
			word := l.word()
			if strings.Trim(word, "0123456789") == "" && l.at < len(l.text) && strings.ContainsRune("<>", rune(l.text[l.at])) {
				continue // the number of what is redirected
			}
			return shellToken{kind: shellWord, text: word}
		}
	}
	return shellToken{kind: shellEnd}
}

func (l *shellLexer) redirection() shellToken {
	rest := l.text[l.at:]
	op := rest[:len(rest)-len(strings.TrimLeft(rest, "<>&|"))]
	l.at += len(op)
	switch {
	case op == "<<":
		l.at += len(l.text[l.at:]) - len(strings.TrimLeft(l.text[l.at:], "- \t"))
		l.heres = append(l.heres, l.word())
		return l.next()
	case strings.Contains(op, ">"):
		return shellToken{kind: shellOutput}
	}
	return shellToken{kind: shellInput}
}

// skipHeres skips the here-documents that begin at this line.
func (l *shellLexer) skipHeres() {
	for _, end := range l.heres {
		for l.at < len(l.text) {
			line, _, _ := strings.Cut(l.text[l.at:], "\n")
			l.at = min(len(l.text), l.at+len(line)+1)
			if strings.TrimLeft(line, "\t") == end {
				break
			}
		}
	}
	l.heres = nil
}

// word reads a word. It returns "" for one that the shell would expand.
func (l *shellLexer) word() string {
	var b strings.Builder
	expands := false
	var quote byte
	for ; l.at < len(l.text); l.at++ {
		c := l.text[l.at]
		switch {
		case quote == '\'':
			if c == '\'' {
				quote = 0
				continue
			}
		case c == '\\' && l.at+1 < len(l.text):
			l.at++
			c = l.text[l.at]
		case c == '$' || c == '`' && quote != 0:
			expands = true
		case quote == '"':
			if c == '"' {
				quote = 0
				continue
			}
		case c == '\'' || c == '"':
			quote = c
			continue
		case strings.ContainsRune("*?[{", rune(c)):
			expands = true
		case strings.ContainsRune(" \t\r\n;|()<>&`", rune(c)):
			if expands {
				return ""
			}
			return b.String()
		}
		b.WriteByte(c)
	}
	if expands {
		return ""
	}
	return b.String()
}
