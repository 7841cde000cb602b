// Package loops proves controllers, scheduler and hollow nodes together on a real API. It has only tests.
package loops
