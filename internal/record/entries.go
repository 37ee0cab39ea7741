package record

import "github.com/dalsegno/segno"

// EncodeEntries encodes entries, with every body byte for byte. checkpoint is true if their commit has
// one.
func EncodeEntries(entries []segno.Entry, checkpoint bool) ([]byte, error) {
	var all encoder
	all.hasOther = checkpoint
	for i := range entries {
		var e encoder
		x := &entries[i]
		e.text(1, string(x.Kind))
		e.number(2, int64(x.Turn))
		e.text(3, string(x.Session))
		if err := e.time(4, x.Time); err != nil {
			return nil, err
		}
		e.text(5, x.ID)
		e.text(6, x.Name)
		e.bytes(7, x.Body)
		all.part(1, e.b)
	}
	return all.record(), nil
}

func DecodeEntries(record []byte) ([]segno.Entry, error) {
	var entries []segno.Entry
	d := decodeChecked(record)
	for d.next() {
		if d.tag == 1 {
			entries = append(entries, decodeEntry(&d))
		}
	}
	return entries, d.err
}

func decodeEntry(outer *decoder) (x segno.Entry) {
	d := decode(outer.bytes)
	for d.next() {
		switch d.tag {
		case 1:
			x.Kind = segno.EntryKind(d.text())
		case 2:
			x.Turn = int(d.number)
		case 3:
			x.Session = segno.SessionID(d.text())
		case 4:
			x.Time = d.time()
		case 5:
			x.ID = d.text()
		case 6:
			x.Name = d.text()
		case 7:
			x.Body = d.bytes[:len(d.bytes):len(d.bytes)]
		}
	}
	outer.within(d)
	return x
}
