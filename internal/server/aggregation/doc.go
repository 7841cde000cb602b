// Package aggregation lets other servers answer for groups of the API. APIServices say which: one without a service is
// answered for here, one with a service by that, and one of a backend by a handler in this process.
//
// What is guaranteed:
//
//   - Who answers is decided from a snapshot of all APIServices that follows the log, and is read without a lock. A
//     group that is served here costs one look into a map.
//   - A request that is handed on has been authenticated and authorized here. The other server learns who asks from the
//     headers of front proxies, and believes them for the certificate of the front proxy; no credential of the client
//     leaves this server.
//   - Bodies pass as they come, in both directions: watches, uploads and connections that are upgraded. A request keeps
//     none of the places for requests that are served here, so that a server that does not answer slows nobody else.
//   - A service is reached at its ready endpoints directly: nothing on this machine has to translate its address.
//   - Each remote APIService has one goroutine that checks it, wakes up when its service or endpoints change, and
//     writes the condition Available. Discovery shows what a service last said of itself, and marks it as stale while
//     it cannot be reached.
package aggregation
