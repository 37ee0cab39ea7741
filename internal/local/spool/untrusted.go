package spool

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/timeline"
)

const untrustedDir = "untrusted"

// untrustedSize is the size from which a file gets no further additions. Each addition writes the newest file again, and a push to a
// server makes one addition for each commit.
const untrustedSize = 16 << 10

// untrustedFile returns the name of the n-th file with what a thread brought, from 0.
func (d *Dir) untrustedFile(thread segno.ThreadID, n int) string {
	ext := ".json"
	if n > 0 {
		ext = "-" + strconv.Itoa(n) + ext
	}
	return d.file(untrustedDir, "untrusted", string(thread), ext)
}

// untrustedFiles returns the numbers of the files with what a thread brought, in order. A user may have moved one aside.
func (d *Dir) untrustedFiles(thread segno.ThreadID) (numbers []int, err error) {
	names, err := d.list(untrustedDir, ".json")
	first := strings.TrimSuffix(d.untrustedFile(thread, 0), ".json")
	for _, name := range names {
		rest, isOf := strings.CutPrefix(strings.TrimSuffix(name, ".json"), first)
		n, _ := strconv.Atoi(strings.TrimPrefix(rest, "-"))
		if isOf && name == d.untrustedFile(thread, n) {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, err
}

// AddUntrusted durably adds to what a thread brought from another machine.
func (d *Dir) AddUntrusted(ctx context.Context, u timeline.Untrusted) (err error) {
	defer annotate(&err, "record files of another machine")
	unlock, err := d.Lock(ctx, untrustedDir)
	if err != nil {
		return err
	}
	defer unlock()
	numbers, err := d.untrustedFiles(u.Thread)
	if err != nil {
		return err
	}
	if len(numbers) == 0 {
		return d.keep(d.untrustedFile(u.Thread, 0), u)
	}
	if numbers[0] != 0 { // an earlier version trusted the thread: see Untrusted
		for _, n := range numbers {
			if err := d.remove(d.untrustedFile(u.Thread, n)); err != nil {
				return err
			}
		}
		return d.keep(d.untrustedFile(u.Thread, 0), u)
	}
	newest := numbers[len(numbers)-1]
	name := d.untrustedFile(u.Thread, newest)
	if fi, err := os.Lstat(name); err != nil {
		return err
	} else if fi.Size() >= untrustedSize {
		return d.keep(d.untrustedFile(u.Thread, newest+1), u)
	}
	known, err := d.readUntrusted(name)
	if err != nil {
		return err
	}
	if len(known.Threads) == 0 && len(known.Files) > 0 {
		u.Threads = nil // of an earlier version: the threads of the files that it lists are not known
	}
	for _, t := range u.Threads {
		if !slices.Contains(known.Threads, t) {
			known.Threads = append(known.Threads, t)
		}
	}
	type state struct {
		path   string
		entity segno.Entity
	}
	has := map[state]bool{}
	for _, f := range known.Files {
		has[state{string(f.Path), f.Entity}] = true
	}
	for _, f := range u.Files {
		if at := (state{string(f.Path), f.Entity}); !has[at] {
			has[at], known.Files = true, append(known.Files, f)
		}
	}
	for _, h := range u.Sidecars {
		if !slices.Contains(known.Sidecars, h) {
			known.Sidecars = append(known.Sidecars, h)
		}
	}
	return d.keep(name, known)
}

// Untrusted returns what threads brought from other machines. A thread may have several records. If the first one is gone, the user
// trusts the thread: an earlier version, which knows only the first file, removed it. A damaged file is an error, because a move
// must not write what it lists.
func (d *Dir) Untrusted(ctx context.Context) (all []timeline.Untrusted, err error) {
	defer annotate(&err, "list files of other machines")
	names, err := d.list(untrustedDir, ".json")
	isFirst := map[segno.ThreadID]bool{}
	for _, name := range names {
		u, err := d.readUntrusted(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the user trusts the thread now
		}
		if err != nil {
			return nil, err
		}
		isFirst[u.Thread] = isFirst[u.Thread] || name == d.untrustedFile(u.Thread, 0)
		all = append(all, u)
	}
	all = slices.DeleteFunc(all, func(u timeline.Untrusted) bool { return !isFirst[u.Thread] })
	return all, errors.Join(err, ctx.Err())
}

func (d *Dir) readUntrusted(name string) (u timeline.Untrusted, err error) {
	data, err := d.readFile(name)
	if err != nil {
		return u, err
	}
	if err := json.Unmarshal(data, &u); err != nil {
		return u, segno.NewError(segno.KindCorrupt, "read file", name, err).
			WithHint("pull the thread again with --trust, or move the file aside, if you trust every machine that wrote the thread")
	}
	return u, nil
}

// Trust durably forgets what a thread brought from another machine.
func (d *Dir) Trust(ctx context.Context, thread segno.ThreadID) (err error) {
	defer annotate(&err, "trust thread")
	unlock, err := d.Lock(ctx, untrustedDir)
	if err != nil {
		return err
	}
	defer unlock()
	numbers, err := d.untrustedFiles(thread)
	for _, n := range numbers {
		err = errors.Join(err, d.remove(d.untrustedFile(thread, n)))
	}
	return err
}
