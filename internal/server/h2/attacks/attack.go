package attacks

import "slices"

// Attack is one way to make a server work or use memory for nothing.
type Attack struct {
	Name string
	// CVE is the number under which the attack was published; it may be empty.
	CVE string
	// Authenticated says that each connection first makes a request that is authenticated.
	Authenticated bool
	// Run carries out the attack. It leaves the connections open, so that the server's memory for them can be measured.
	Run func(*Attacker)
}

// streams is how many streams the server must allow on a connection.
func (a Attack) streams() int {
	if a.Authenticated {
		return authenticatedStreams
	}
	return unauthenticatedStreams
}

// All returns the attacks by kind. Each is made by unauthenticated clients; those that open streams also by
// authenticated clients, which may open more.
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

// The sizes of the attacks: large enough for costs to exceed the noise. The test uses smaller ones.
var (
	manyConns   = 20
	manyStreams = 1000
	manyFrames  = 20_000
)
