//go:build !linux

package watch

import "syscall"

// Watcher is not available on this operating system.
type Watcher struct{}

// Open returns [ErrUnsupported].
func Open(root, private string) (*Watcher, error) { return nil, ErrUnsupported }

// OpenInotify returns [ErrUnsupported].
func OpenInotify(root, private string) (*Watcher, error) { return nil, ErrUnsupported }

func (*Watcher) Sync() (Token, error)        { return Token{}, ErrUnsupported }
func (*Watcher) Mark(int, Dir, Token) error  { return ErrUnsupported }
func (*Watcher) IsMarked(Dir) bool           { return false }
func (*Watcher) IsUnchanged(Dir, Token) bool { return false }
func (*Watcher) Marked(Token) map[Dir]bool   { return nil }
func (*Watcher) Stats() Stats                { return Stats{} }
func (*Watcher) Read()                       {}
func (*Watcher) Close() error                { return nil }

// IsSameUser returns false.
func IsSameUser(syscall.Conn) bool { return false }
