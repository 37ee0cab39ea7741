package cli

import (
	"encoding/json"

	"github.com/dalsegno/segno"
)

// Results carry their paths exactly: beside a path that is not valid UTF-8, or a list
// with such a path, is a field with the same name and _bytes, which has the bytes in
// base64. See also [segno.PathBytes].

func (r statusResult) MarshalJSON() ([]byte, error) {
	type plain statusResult
	return json.Marshal(struct {
		plain
		DirBytes   []byte `json:"dir_bytes,omitempty"`
		StoreBytes []byte `json:"store_bytes,omitempty"`
	}{plain(r), segno.PathBytes(r.Dir), segno.PathBytes(r.Store)})
}

func (r enableResult) MarshalJSON() ([]byte, error) {
	type plain enableResult
	return json.Marshal(struct {
		plain
		FileBytes   []byte `json:"file_bytes,omitempty"`
		BackupBytes []byte `json:"backup_bytes,omitempty"`
		DirBytes    []byte `json:"dir_bytes,omitempty"`
	}{plain(r), segno.PathBytes(r.File), segno.PathBytes(r.Backup), segno.PathBytes(r.Dir)})
}

func (r forkResult) MarshalJSON() ([]byte, error) {
	type plain forkResult
	return json.Marshal(struct {
		plain
		DirBytes     []byte   `json:"dir_bytes,omitempty"`
		LeftOutBytes [][]byte `json:"left_out_bytes,omitempty"`
	}{plain(r), segno.PathBytes(r.Dir), pathsBytes(r.LeftOut)})
}

func (r resumeResult) MarshalJSON() ([]byte, error) {
	type plain resumeResult
	return json.Marshal(struct {
		plain
		DirBytes []byte `json:"dir_bytes,omitempty"`
	}{plain(r), segno.PathBytes(r.Dir)})
}

func (r chainItem) MarshalJSON() ([]byte, error) {
	type plain chainItem
	return json.Marshal(struct {
		plain
		DirBytes []byte `json:"dir_bytes,omitempty"`
	}{plain(r), segno.PathBytes(r.Dir)})
}
