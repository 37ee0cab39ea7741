package segno

import (
	"cmp"
	"encoding/json"
	"unicode/utf8"
)

// File names are bytes, and JSON strings are not. MarshalJSON therefore also writes a name that
// is not valid UTF-8 as base64, in an additional field, and UnmarshalJSON prefers that field. A
// plan in the journal, and every result, thus names the exact files.

// PathBytes returns the value of path_bytes, the field next to a path in JSON: the path's bytes
// if they are not valid UTF-8, else nil.
func PathBytes(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
}

type (
	plainChange   Change
	plainConflict Conflict
	plainEntity   Entity
)

type changeJSON struct {
	plainChange
	PathBytes []byte `json:"path_bytes,omitempty"`
}

// MarshalJSON adds path_bytes if the path is not valid UTF-8.
func (c Change) MarshalJSON() ([]byte, error) {
	return json.Marshal(changeJSON{plainChange(c), PathBytes(c.Path)})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (c *Change) UnmarshalJSON(data []byte) error {
	var j changeJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*c = Change(j.plainChange)
	c.Path = cmp.Or(string(j.PathBytes), c.Path)
	return nil
}

type conflictJSON struct {
	plainConflict
	PathBytes []byte `json:"path_bytes,omitempty"`
}

// MarshalJSON adds path_bytes if the path is not valid UTF-8.
func (c Conflict) MarshalJSON() ([]byte, error) {
	return json.Marshal(conflictJSON{plainConflict(c), PathBytes(c.Path)})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (c *Conflict) UnmarshalJSON(data []byte) error {
	var j conflictJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*c = Conflict(j.plainConflict)
	c.Path = cmp.Or(string(j.PathBytes), c.Path)
	return nil
}

type entityJSON struct {
	plainEntity
	TargetBytes []byte `json:"target_bytes,omitempty"`
}

// MarshalJSON adds target_bytes if the target is not valid UTF-8.
func (e Entity) MarshalJSON() ([]byte, error) {
	return json.Marshal(entityJSON{plainEntity(e), PathBytes(e.Target)})
}

// UnmarshalJSON reads the output of MarshalJSON.
func (e *Entity) UnmarshalJSON(data []byte) error {
	var j entityJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*e = Entity(j.plainEntity)
	e.Target = cmp.Or(string(j.TargetBytes), e.Target)
	return nil
}
