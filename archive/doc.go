// Package archive reads and writes .ckpt files. A .ckpt file carries one moment of a run to
// another place: the world's document, and for each agent the files of its directory and its
// conversation. All paths in it are relative. The file is a zip that unzip and Python open. This
// comment is the specification of the format ckpt/1.
//
// # Content
//
//	metadata.json                     facts about the archive beside the state
//	manifest.json                     the list of everything in the archive
//	SHA256SUMS                        hashes in the form of sha256sum
//	delta.json                        the contents that another archive has, if this one is a delta
//	world.snapshot                    the world's document, if there is one
//	agents/NAME/session/…             the agent's conversation
//	agents/NAME/thread/…              a whole thread of checkpoints, with its files
//	agents/NAME/workspace/…           the files of its directory
//	state_digest.sig                  a signature, if there is one
//
// The files are in this order; those below agents are sorted by the bytes of their paths.
// There are no entries for directories and links: manifest.json lists links and empty
// directories. SHA256SUMS has a line for each file except itself and the signature, in order.
//
// metadata.json and manifest.json are JSON. Their fields are those of [Metadata] and [Manifest]. A
// reader refuses unknown fields, because a later format has another schema. manifest.json has one
// form: what encoding/json writes for a Manifest, without white space and without escapes for HTML. A
// reader writes it again and compares the bytes.
//
// The digest of the state is the SHA-256 of manifest.json. It covers paths, modes, times, sizes and hashes of content, links, the
// list of what was left out, and the rules of the secret scan. It does not depend on the
// compression, on the signature or on metadata.json. Archives are compared by the digest and never
// by the bytes of the file, which depend on the version of the compressor. Only SHA256SUMS
// covers metadata.json. A reader checks its agents and its session format against the manifest. Anyone
// can change the time and the caller's additions, even in a signed archive.
//
// # Deltas
//
// A delta leaves contents to another archive, its base. Its metadata.json and manifest.json
// are those of the full archive, byte for byte, so it has the same digest and takes the same
// signature; only the transport differs. delta.json, with the fields of [Delta] and in the one form
// of such a document, names the base by its digest, and may have a name for it. If that is the name of a file beside the
// delta, programs look for the base there. It lists the files that begin with the whole
// content of a file of the base, in the order of the manifest. A file that is equal to the
// base's is not in the zip. For a longer file the zip has the rest as tails/PATH, at the place
// that the file would have. All other files are there as usual. A writer never leaves an empty
// file to the base, and an archive that leaves nothing to a base has no delta.json.
//
// SHA256SUMS has the files that the zip has: delta.json after manifest.json, and each tail
// in the place of its file.
//
// A reader takes a content from the base only by its length and hash, only from the same
// tier of the same agent, and never from the path of a credential. It checks each file
// that it puts together against the manifest. So it need not trust delta.json, and any archive
// can serve as the base. The base may be a delta. The writer searches all contents for secrets,
// including those that it does not store, so that the manifest is that of the full archive.
//
// # Threads
//
// The tier thread has a whole thread of segno's checkpoints, so that another store can import it:
//
//	thread.json          id, created, title, agent, head, tip and pins
//	commits.jsonl        a line of JSON for each commit
//	objects/HH/HASH      the objects that the commits reach, by SHA-256
//
// A commit has the fields id, parent, checkpoint and entries. The fields of a checkpoint and an
// entry are in docs/format.md, under the names that segno show --json uses. Parents come first,
// and only the first commit has none. Commits of other threads from which the thread was forked are
// in the list like its own. A checkpoint has no id, thread, parent, sequence number, members or
// workspace id. Its position in a transcript has no path and no state of the hash. If the body of an
// entry is not compact JSON in UTF-8, it is base64 in the field raw. Each line has the bytes that an
// encoder with minimal escaping writes for its content, with the fields in the order of the
// specification.
//
// Snapshots, logs of transcripts and lists of sidecars are objects in the formats of
// docs/format.md. A snapshot has no path of a credential or of an agent's abilities, nothing
// protected, and no setuid, setgid or sticky bit. Its symlinks have relative targets that go up only
// at their beginning and not beyond the root. A list of sidecars has no sidecar of session-env.
// Each object is named by some commit, and each named object is there. The archive does not
// contain the links of the thread's chain and its operations.
//
// The session format segno-v1, of segno's own agent, is the line of one checkpoint as
// thread.json and commits.jsonl in the tier session: head and tip are its last commit, and the
// checkpoints have no files, documents and positions.
//
// The session format segno-log-v1, of agents in a world for which segno keeps the conversation, is
// the log of one thread of package store/file, in threads/ID/log.jsonl.
//
// # Profile of the zip
//
// An archive can be read in only one way. Each header is what the functions of zip.go write from the
// name, the method, the CRC-32, the two sizes, whether the file is executable, and the sum
// of the lengths before it. A reader writes all headers again and compares the bytes. So:
//
//   - files follow each other without a gap from offset 0, in the order of the directory;
//     one end record is at the end of the file, without a comment;
//   - flags are 0x0800 (UTF-8) and nothing else: no encryption, no data descriptors;
//   - methods are 0 (stored), 8 (deflate) and 93 (zstd); the compressed content fills its
//     space to the byte; a zstd file is one frame without a dictionary that names its size,
//     and its window is at most 8 MiB;
//   - the version needed is 63 for method 93, else 45 with zip64 fields, else 20; made by is
//     version 63 on Unix, and the mode is 0100644 or 0100755;
//   - the time is 1 January 1980, 00:00; internal attributes, disk numbers and comments are
//     zero or empty;
//   - the only extra field is the zip64 field. It is there only if a size or an offset is
//     2^32-1 or more: size and compressed size, then the offset in the directory. The zip64
//     end records are there only if the count is 65535 or more, or the offset or length of
//     the directory 2^32-1 or more.
//
// A writer compresses workspaces and worlds with deflate, because every zip program must open
// the parts that are meant for publication or evaluation. It compresses conversations with zstd,
// unless it is asked for deflate throughout. It stores contents that do not become smaller. In place
// of zstd it also stores contents of less than 256 bytes, for which a frame does not contain the size.
//
// # Names
//
// A name is valid UTF-8 in normal form C, at most 1,024 bytes, 255 an element and 64 levels.
// It has no empty element, "." or "..", no control or invisible character, none of \ : * ? "
// < > |, no dot or space at the end of an element, no ~ before a digit, and no element that
// Windows takes for a device. No two names are the same after NFKC and case folding, and
// none is below another. A file with another name is left out and listed.
//
// A link's target is relative and resolves to a place in the same workspace, also through
// other links. It has at most 64 levels. Links whose path is the beginning of a denied
// place are not extracted.
//
// An archive has at most 200,000 files, as many directories, as many links and empty
// directories, and as many paths that were left out; 1,000 agents; and 64 MiB of manifest.json.
//
// # Safety
//
// [Write] leaves out credentials and the configuration of an agent's abilities (places.go). It
// refuses to write a secret that package secret finds in a content, a name or a description.
// [Open] checks everything that can be checked without reading the files, before the first byte
// is written anywhere. [Load] writes into a new directory, which appears when it is complete. It
// never extracts credentials or abilities. It loads sessions and worlds only from archives that
// this machine wrote or that the caller trusts. The files in [Manifest.Instructions] were written
// by strangers, and an agent will read them as instructions.
package archive
