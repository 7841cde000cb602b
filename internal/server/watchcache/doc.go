// Package watchcache keeps, for every kind, the latest state and a window of recent history, and serves both to any
// number of readers without asking the store.
//
// A Cache reads the store's log once, for all kinds. The goroutine that reads the log is the only writer, so there is
// one order, and one revision says how far all kinds are. A Cursor is one watch. Its guarantees are:
//
//   - Ordered: revisions of events never go down.
//   - Unique: no event comes twice.
//   - Reliable: no event between the start and the last event seen is left out. A cursor that can't keep this promise
//     ends with an error instead.
//   - Bookmarkable: after Cursor.Revision returned R, no event at or below R comes.
//   - Resumable: a new cursor from the revision of the last event seen (or from a bookmark) continues exactly, as long
//     as that revision is inside the window.
//   - Filterable: a cursor on a topic gets exactly those events whose object is or was part of the topic.
//
// Readers of state have these guarantees:
//
//   - A Snapshot never changes, shows exactly the state at its revision and costs O(1).
//   - After WaitFor(R) every snapshot and every cursor of every kind includes all changes up to R.
//   - After Fresh, they include every write that was acknowledged before the call.
//
// A slow cursor slows nobody down: it is a pointer into a linked list of immutable events. Inside the window it is
// never cut off. Outside the window it ends with ErrExpired and keeps only the link alive on which it stands. When the
// log was lost and cannot be resumed, the cache reads the state again and every cursor ends with ErrRefilled, because
// the events in between are unknown.
//
// A store whose revision is lower than one that its log has shown was restored to an older state. The cache notices it
// when anybody asks for the newest revision, and asks by itself when the log is quiet. Then it reads everything again,
// every cursor ends with ErrReplaced, and so does WaitFor. A store that has grown beyond the cache's revision before
// anybody asked cannot be told from one that was not restored.
//
// A caller may not assume that revisions of a kind are dense, that two kinds' snapshots taken one after the other have
// the same revision, or that a key's revisions only grow if the store was replaced by another one while the cache runs.
//
// Nothing is served before the first fill is done (ErrNotReady). While the store is unavailable, snapshots and cursors
// continue with the cached state; only Fresh fails.
package watchcache
