// Package page serves a page for browsers, which shows a cluster: live, as it was, and why.
//
// The page is one more client of the API. It reads it below /page/cluster/, where the server puts the user of the
// browser's session in front of the API's own handler: which objects that user sees is decided as for anybody.
//
// # Who gets in
//
// A link has a code that can be used once, within LinkLife. It is behind the # of the link: browsers send that to
// nobody, so no log and no Referer has it. The page exchanges it for a session, which consists of two secrets. One is a
// cookie that no script can read. Cookies are shared by all ports of a host, though: so the other one is kept by the
// page in the storage of its origin, and sent as the header Key. Neither is worth anything alone.
//
// # Guarantees
//
//   - Nothing can be changed with a session: only GET and HEAD are answered, and no sessions in containers, no proxies
//     and no upgrades to other protocols.
//   - A request from a page of another origin is refused, even if it has both secrets.
//   - The API gets no header of the browser that it could take for a proof of who somebody is.
//   - Secrets are kept as hashes, in memory alone: they end with the process. Their number is bounded, for each user too.
//   - The page loads nothing from elsewhere, runs no script but its own, and cannot be put into a frame.
//
// A caller may not assume that a session outlives the process, or that a change of somebody's groups ends it: a session
// has the groups that its link was made with, for at most SessionLife.
package page
