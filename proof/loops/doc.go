// Package loops tests controllers, scheduler and hollow nodes together with a real API. It has only tests.
package loops
