// Package journal is a store that keeps a log of all changes on disk, and in memory an index of the present state.
//
// It keeps every guarantee of package store, for one process on one machine:
//
//   - Durable. A write is answered, and seen by anybody, when its record is on the disk (fdatasync). All writes that
//     wait meanwhile are one record: they share its checksum and its sync.
//   - Whole. What a kill or a power failure has cut off at the end of the log was never acknowledged, and is cut away.
//     A record that is broken anywhere else, or overwritten with zeros, is an error that names the file and the place:
//     nothing after it is believed, and nothing is changed.
//   - Alone. A directory serves one store at a time.
//   - Lost is lost. After a sync that failed nobody knows what is on the disk, and another sync would not tell. So all
//     later writes fail, and Options.Lost is told; only a new start, which reads the log, can go on. What is read
//     meanwhile is on the disk.
//   - A full disk refuses writes that need space with store.ErrNoSpace, and lets deletes through as long as the space
//     that is reserved for them lasts. Writes go on when there is space again. If the log itself fills the disk, a
//     snapshot makes room, if it fits in. (A file system that needs new space to overwrite old bytes may end the store
//     instead.)
//
// # Files
//
// A directory has segments (REVISION.log) and snapshots (REVISION.snapshot), named by the first revision that a segment
// may have, and the revision whose state a snapshot shows. Both begin with a magic line and a salt, and consist of
// records of about 64 KiB before compression: length, CRC-32C of the body, CRC-32C of these two, and a body of changes,
// compressed with zstd. A group of writes is one or more records, of which the last says so; a part of a group is as if
// it had never been written. Segments are preallocated, so that a sync need not write their length. A start reads the
// newest snapshot and the segments after it. Snapshots are made aside from a frozen tree, which stops nobody, renamed
// when they are whole, and make older files superfluous once their name is on the disk.
//
// # Values
//
// A value is in memory as long as its change is remembered for watches (Options.Memory bounds them). After that the
// index has only its place: file, record, and number in the record. A read decodes that record, of 64 KiB; a list sorts
// what it needs by place, and decodes each record once. A snapshot copies the values into its file and then moves their
// places there. A file that is removed stays readable for those who have its places.
//
// How much of this is true is found out in the tests, by thousands of crashes of a disk that keeps only what was synced.
//
// It does not do what needs several machines: there is no replication, and no other process reads it. Several servers
// share an etcd.
package journal
