// Package attacks is a suite of the known attacks on HTTP/2 servers.
//
// Each attack has a name, a CVE number if there is one, and a function that carries it out against a server on
// loopback. The server runs in its own process (Start), so that its cost can be separated from that of the attacker.
// One server uses package h2, another net/http; both have the same handlers and the limits that kube-apiserver sets.
//
// The suite measures (Measure), for each attack:
//
//   - the memory that the server holds while all connections of the attack are still open: its live heap and its
//     stacks,
//   - the largest resident memory of its process,
//   - the processor time that it used,
//   - how many handlers ran, how many at once, and how often the server ended a connection.
//
// The command compare prints this for both servers, side by side. The package's test fails if package h2 holds more
// than 1.5 times the memory of net/http, or runs more handlers at once; it ignores time.
package attacks
