// Package planes measures control planes in a control plane: how quickly they are made, woken, forked and deleted, and
// what they need while they sleep and while they are awake. Their behaviour is tested beside package millrace.
//
//	go test ./proof/planes -run '^$' -bench . -benchtime 1x
package planes
