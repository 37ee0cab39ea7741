package archive

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"path/filepath"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/internal/vfs"
)

// assemble writes the archive from the plan and the bodies of its items. It gives the file its name once
// the file is durable.
func (p *plan) assemble(ctx context.Context, name string, o *WriteOptions) (*Manifest, error) {
	top, err := p.top(o)
	if err != nil {
		return nil, err
	}
	f, err := createTemp(ctx, o.FS, filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	err = sealed(f, o.Recipients, func(w io.Writer) error { return p.writeTo(w, top) })
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil && o.Record != nil {
		err = o.Record(p.manifest.Digest)
	}
	if err == nil {
		err = publish(o.FS, f.Name(), name)
	}
	if err != nil {
		return nil, errors.Join(err, ignoreMissing(o.FS.Remove(f.Name())))
	}
	m := p.manifest
	return &m, nil
}

// publish gives a complete file its name, unless another file has it.
func publish(fsys vfs.FS, temp, name string) error {
	if err := fsys.Link(temp, name); err != nil {
		return err
	}
	if err := fsys.Remove(temp); err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(name))
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// small is a small file of the archive, which is kept in memory.
type small struct {
	header header
	data   []byte
}

// top makes the files at the top of the archive, and the signature, which is the last file.
func (p *plan) top(o *WriteOptions) ([]small, error) {
	m := &p.manifest
	m.Entries = p.entries()
	if err := m.check(); err != nil {
		return nil, &stateError{err.Error()}
	}
	manifest, err := segno.Encode(m)
	if err != nil {
		return nil, err
	}
	m.Digest = digestOf(manifest)
	metadata, err := segno.Encode(p.metadata())
	if err != nil {
		return nil, err
	}
	e := newEncoder(true)
	var files []small
	add := func(name string, data []byte) error {
		packed, method, err := e.encode(data, Workspace)
		h := header{name: name, method: method, crc: crc32.ChecksumIEEE(data), compressed: int64(len(packed)), size: int64(len(data))}
		files = append(files, small{h, bytes.Clone(packed)})
		return err
	}
	tops := []namedData{{metadataName, metadata}, {manifestName, manifest}}
	d := p.delta(o.Since)
	if d != nil {
		if err := d.check(m); err != nil {
			return nil, &stateError{err.Error()}
		}
		delta, err := segno.Encode(d)
		if err != nil {
			return nil, err
		}
		tops = append(tops, namedData{deltaName, delta})
	}
	err = errors.Join(add(metadataName, metadata), add(manifestName, manifest), add(sumsName, checksums(tops, m.Entries, d)))
	if err == nil && d != nil {
		err = add(deltaName, tops[2].data)
	}
	p.tops = len(files)
	if err == nil && o.Sign != nil {
		var signature []byte
		if signature, err = o.Sign(m.Digest); err == nil {
			err = add(signatureName, signature)
		}
	}
	return files, err
}

func (p *plan) metadata() *Metadata {
	agents, format := describeAgents(p.manifest.Agents)
	return &Metadata{Schema: Schema, Created: p.state.Created.UTC(), SessionFormat: format, Agents: agents, Caller: p.state.Caller}
}

// describeAgents returns the names of agents, and the format of their sessions if they all have the same.
func describeAgents(list []AgentInfo) (names []string, format string) {
	names = []string{}
	for i, a := range list {
		names = append(names, a.Name)
		if i == 0 {
			format = a.SessionFormat
		} else if a.SessionFormat != format {
			format = ""
		}
	}
	return names, format
}

// writeTo writes the whole archive.
func (p *plan) writeTo(f io.Writer, top []small) error {
	w := bufio.NewWriterSize(f, 1<<20)
	var headers []*header
	at := int64(0)
	var record []byte
	begin := func(h *header) error {
		h.offset = at
		headers = append(headers, h)
		record = h.appendLocal(record[:0])
		at += int64(len(record)) + h.compressed
		_, err := w.Write(record)
		return err
	}
	files := func(list []small) error {
		for i := range list {
			if err := begin(&list[i].header); err != nil {
				return err
			}
			if _, err := w.Write(list[i].data); err != nil {
				return err
			}
		}
		return nil
	}
	if err := files(top[:p.tops]); err != nil {
		return err
	}
	for _, i := range p.items {
		if i.stored() == "" {
			continue
		}
		if err := begin(&i.header); err != nil {
			return err
		}
		if _, err := io.Copy(w, io.NewSectionReader(i.body, i.at, i.header.compressed)); err != nil {
			return err
		}
	}
	if err := files(top[p.tops:]); err != nil {
		return err
	}
	directory := int64(0)
	for _, h := range headers {
		record = h.appendCentral(record[:0])
		n, err := w.Write(record)
		if err != nil {
			return err
		}
		directory += int64(n)
	}
	if _, err := w.Write(endRecords(len(headers), at, directory)); err != nil {
		return err
	}
	return w.Flush()
}
