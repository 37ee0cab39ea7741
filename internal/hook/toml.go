package hook

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

const byteOrderMark = "\uFEFF"

// tomlSpan is a part of a file.
type tomlSpan struct{ from, to int }

// tomlScanner reads the settings of a TOML file before its first table. It finds the end of each
// value and decodes none.
type tomlScanner struct {
	data []byte
	at   int
}

var (
	errTOMLEnd    = errors.New("a string or an array does not end")
	errTOMLKey    = errors.New("neither a setting nor a table")
	errTOMLBehind = errors.New("unexpected text after a value")
)

// setting returns the line, the key and the value of the next setting. The key is "" if no setting is left.
func (s *tomlScanner) setting() (line tomlSpan, key string, value tomlSpan, err error) {
	s.skipLines()
	line.from = s.at
	if s.at == len(s.data) || s.data[s.at] == '[' {
		return line, "", value, nil
	}
	if key, err = s.key(); err != nil {
		return line, "", value, err
	}
	s.skipBlank()
	value.from = s.at
	if err = s.skipValue(); err != nil {
		return line, "", value, err
	}
	value.to = s.at
	s.skipBlank()
	s.skipComment()
	s.skip("\r")
	if s.at < len(s.data) && !s.skip("\n") {
		return line, "", value, errTOMLBehind
	}
	line.to = s.at
	return line, key, value, nil
}

// key reads a key and the equals sign. A quoted key without escapes is like one without quotes.
func (s *tomlScanner) key() (string, error) {
	from := s.at
	for s.at < len(s.data) {
		switch c := s.data[s.at]; c {
		case '=':
			key := strings.TrimRight(string(s.data[from:s.at]), " \t")
			s.at++
			if n := len(key); n > 1 && (key[0] == '"' || key[0] == '\'') && key[n-1] == key[0] {
				key = key[1 : n-1]
			}
			if key == "" {
				return "", errTOMLKey
			}
			return key, nil
		case '\n', '#':
			return "", errTOMLKey
		case '"', '\'':
			if err := s.skipString(); err != nil {
				return "", err
			}
		default:
			s.at++
		}
	}
	return "", errTOMLKey
}

// skipValue skips a value: a string, a whole array or inline table, or anything else up to the end
// of the line.
func (s *tomlScanner) skipValue() error {
	for from := s.at; s.at < len(s.data); s.at++ {
		switch s.data[s.at] {
		case '"', '\'':
			return s.skipString()
		case '[', '{':
			return s.skipNested()
		case ']', '}':
			s.at++
			return nil
		case '\n', '\r', '#':
			s.at = from + len(bytes.TrimRight(s.data[from:s.at], " \t"))
			return nil
		}
	}
	return nil
}

// skipNested skips an array or an inline table.
func (s *tomlScanner) skipNested() error {
	for depth := 0; s.at < len(s.data); {
		switch s.data[s.at] {
		case '"', '\'':
			if err := s.skipString(); err != nil {
				return err
			}
			continue
		case '#':
			s.skipComment()
			continue
		case '[', '{':
			depth++
		case ']', '}':
			depth--
		}
		if s.at++; depth == 0 {
			return nil
		}
	}
	return errTOMLEnd
}

// skipString skips a string of one line or of several, with or without escapes.
func (s *tomlScanner) skipString() error {
	quote := s.data[s.at : s.at+1]
	if long := bytes.Repeat(quote, 3); bytes.HasPrefix(s.data[s.at:], long) {
		quote = long
	}
	hasEscapes, isLong := quote[0] == '"', len(quote) == 3
	for s.at += len(quote); s.at < len(s.data); s.at++ {
		switch {
		case hasEscapes && s.data[s.at] == '\\':
			s.at++
		case s.data[s.at] == '\n' && !isLong:
			return errTOMLEnd
		case bytes.HasPrefix(s.data[s.at:], quote):
			s.at += len(quote)
			for range 2 { // the text of a multi-line string may end with quotes
				_ = isLong && s.skip(string(quote[:1]))
			}
			return nil
		}
	}
	s.at = len(s.data)
	return errTOMLEnd
}

func (s *tomlScanner) skipLines() {
	for {
		from := s.at
		s.skipBlank()
		s.skipComment()
		_ = s.skip("\r\n") || s.skip("\n")
		if s.at == from {
			return
		}
	}
}

func (s *tomlScanner) skipBlank() {
	for s.at < len(s.data) && (s.data[s.at] == ' ' || s.data[s.at] == '\t') {
		s.at++
	}
}

func (s *tomlScanner) skipComment() {
	if s.at == len(s.data) || s.data[s.at] != '#' {
		return
	}
	n := bytes.IndexByte(s.data[s.at:], '\n')
	if n < 0 {
		n = len(s.data) - s.at
	}
	s.at += n
}

// skip skips text if the input continues with it, and reports whether it did.
func (s *tomlScanner) skip(text string) bool {
	ok := bytes.HasPrefix(s.data[s.at:], []byte(text))
	if ok {
		s.at += len(text)
	}
	return ok
}

// decodeTOML decodes an array of strings of one line each.
func decodeTOML(array []byte) (words []string, err error) {
	errOther := errors.New("not an array of strings of one line")
	in := &tomlScanner{data: array}
	if !in.skip("[") {
		return nil, errOther
	}
	for {
		in.skipLines()
		if in.skip("]") {
			return words, nil
		}
		from := in.at
		if from == len(array) || array[from] != '"' && array[from] != '\'' || in.skipString() != nil {
			return nil, errOther
		}
		text := string(array[from:in.at])
		word := text[1 : len(text)-1]
		if text[0] == '"' {
			if word, err = strconv.Unquote(text); err != nil {
				return nil, errOther
			}
		} else if strings.ContainsAny(word, "'\n") {
			return nil, errOther
		}
		words = append(words, word)
		in.skipLines()
		if in.skip(","); in.at < len(array) && array[in.at-1] != ',' && array[in.at] != ']' {
			return nil, errOther
		}
	}
}
