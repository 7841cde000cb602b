// Package attacks is a suite of the known attacks on HTTP/2 servers.
//
// Each attack has a name, the number under which it was published, if it has one, and a function that carries it out against a server
// on loopback. A server to attack runs in a process of its own (Start), so that what it costs can be told from what the attacker costs:
// one that serves with package h2, and one that serves with net/http, both with the same handlers and the limits that kube-apiserver
// sets.
//
// The suite measures (Measure), for each attack:
//
//   - the memory that the server holds while all connections of the attack are still open: its live heap and its stacks,
//   - the most memory that its process had resident,
//   - the processor time that it used,
//   - how many handlers ran, how many at once, and how often the server ended a connection.
//
// The command compare prints all of that for both servers, side by side. The package's test fails if package h2 holds more than 1.5
// times the memory of net/http, or runs more handlers at once; it never looks at time.
package attacks
