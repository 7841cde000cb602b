//go:build linux

package services

import "github.com/millrace/millrace/internal/network/nft"

// elements calls f with the number of elements of each set of the IPv4 table, in the namespace of the calling thread.
func elements(f func(set setNumber, count int)) error {
	conn, err := nft.Dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	for set := range numberOfSets {
		all, err := conn.Elements(family{}.table(), setNames[set])
		if err != nil {
			return err
		}
		f(set, len(all))
	}
	return nil
}

func (s *stage) generation() uint32 {
	var g uint32
	s.node.Do(func() error {
		conn, err := nft.Dial()
		if err != nil {
			return err
		}
		defer conn.Close()
		g, err = conn.Generation()
		return err
	})
	return g
}
