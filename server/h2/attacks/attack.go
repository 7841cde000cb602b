package attacks

import "slices"

// Attack is one way to make a server work, or keep memory, for nothing.
type Attack struct {
	Name string
	// CVE is the number under which the attack was published, if it has one.
	CVE string
	// Authenticated says that each connection of the attack first makes a request that is authenticated.
	Authenticated bool
	// Run carries the attack out. It leaves the connections open, so that what the server holds for them can be measured.
	Run func(*Attacker)
}

// streams is how many streams the servers allow the clients of an attack.
func (a Attack) streams() int {
	if a.Authenticated {
		return knownStreams
	}
	return unknownStreams
}

// All returns the attacks, by kind: each by clients that nobody knows, and those that open streams also by authenticated clients, who
// may open more.
func All() []Attack {
	opening := slices.Concat(windows, resets, headers)
	all := slices.Concat(opening, floods, slow)
	for _, a := range opening {
		a.Name += ", authenticated"
		a.Authenticated = true
		all = append(all, a)
	}
	return all
}

// These are the sizes of the attacks: large enough that costs can be told from noise. The test has smaller ones.
var (
	manyConns   = 20
	manyStreams = 1000
	manyFrames  = 20_000
)
