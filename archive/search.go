package archive

import (
	"path"

	"github.com/dalsegno/segno"
	"github.com/dalsegno/segno/secret"
)

// Names and descriptions are in an archive in clear text, too. A finding in one of them names the
// directory, because the full path would print the secret.

// A namedText is a text of an archive outside the contents of files.
type namedText struct {
	text  string
	where string // for the finding: a directory with a slash at its end, or a file at the top
}

// search adds the secrets in names and descriptions to findings. If the path of a file is itself a
// secret, search replaces it in the findings by a directory.
func (p *plan) search(findings []secret.Finding, o *WriteOptions) ([]secret.Finding, error) {
	texts, err := p.texts(o)
	if err != nil {
		return nil, err
	}
	places := map[string]string{} // of the names that are secrets
	for _, t := range texts {
		found := searchText(o.Scanner, t.text)
		if len(found) == 0 {
			continue
		}
		if t.where == "" {
			t.where = p.cleanDir(t.text, o.Scanner)
			places[t.text] = t.where
		}
		for _, f := range found {
			f.Path, f.Record = t.where, 0
			f.About += ", in a name or description"
			findings = append(findings, f)
		}
	}
	for i, f := range findings {
		if place, ok := places[f.Path]; ok {
			findings[i].Path = place
		}
	}
	sortFindings(findings)
	return findings, nil
}

func searchText(s *secret.Scanner, text string) []secret.Finding {
	x := s.Start("")
	_, _ = x.Write([]byte(text)) // a scan never fails
	return x.Close()
}

// cleanDir returns the nearest directory above a path whose name is not a secret.
func (p *plan) cleanDir(name string, s *secret.Scanner) string {
	dir := path.Dir(name)
	for dir != "." && len(searchText(s, dir)) > 0 {
		dir = path.Dir(dir)
	}
	return dir + "/"
}

// texts lists the texts that a reader of the archive sees beside the contents. where is empty for a
// path of the archive. The names of a thread's files are left out, because they are hashes.
func (p *plan) texts(o *WriteOptions) ([]namedText, error) {
	m := &p.manifest
	var list []namedText
	for _, i := range p.items {
		if i.tier != Thread {
			list = append(list, namedText{text: i.name})
		}
	}
	for _, d := range m.Dirs {
		list = append(list, namedText{text: d})
	}
	for _, l := range m.Links {
		list = append(list, namedText{text: l.Path}, namedText{l.Target, p.cleanDir(l.Path, o.Scanner)})
	}
	for _, left := range m.Omitted {
		list = append(list, namedText{left.Path, manifestName}, namedText{left.Why, manifestName})
	}
	rest, err := segno.Encode(&Manifest{World: m.World, Agents: m.Agents, Cut: m.Cut, Parent: m.Parent})
	if err != nil {
		return nil, err
	}
	metadata, err := segno.Encode(p.metadata())
	if err != nil {
		return nil, err
	}
	list = append(list, namedText{string(rest), manifestName}, namedText{string(metadata), metadataName})
	if o.Since != nil {
		list = append(list, namedText{o.Since.Name, deltaName})
	}
	return list, nil
}
