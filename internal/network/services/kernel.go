//go:build linux

package services

import (
	"fmt"

	"github.com/millrace/millrace/internal/network/nft"
)

// kernelTable is the table of one family, with its last known chains.
type kernelTable struct {
	family
	conn   *nft.Conn
	chains map[string]bool // chains that choose an endpoint
}

// write adds a difference to a batch, and the chains that it needs.
func (k *kernelTable) write(b *nft.Batch, d difference) {
	t := k.table()
	for _, r := range d.added {
		if r.six == k.six && r.chain.chooses() {
			k.chain(b, r.chain)
		}
	}
	for set, all := range k.bySet(d.removed) {
		if all != nil {
			b.DeleteElements(t, setNames[set], all)
		}
	}
	for set, all := range k.bySet(d.added) {
		if all != nil {
			b.AddElements(t, setNames[set], all)
		}
	}
}

func (k *kernelTable) chain(b *nft.Batch, c chain) {
	name := c.name()
	if k.chains[name] {
		return
	}
	b.AddChain(k.table(), nft.Chain{Name: name})
	for _, r := range k.rules(c) {
		b.AddRule(k.table(), name, r...)
	}
	k.chains[name] = true
}

// prune removes the chains that no element needs any more.
func (k *kernelTable) prune(b *nft.Batch, needed map[chain]int) {
	names := map[string]bool{}
	for c := range needed {
		names[c.name()] = true
	}
	for name := range k.chains {
		if !names[name] {
			b.FlushChain(k.table(), name)
			b.DeleteChain(k.table(), name)
			delete(k.chains, name)
		}
	}
}

func (k *kernelTable) bySet(rows []row) [numberOfSets][]nft.Element {
	var all [numberOfSets][]nft.Element
	for _, r := range rows {
		if r.six == k.six {
			all[r.set] = append(all[r.set], r.element())
		}
	}
	return all
}

// compare reads the table, and adds to a batch what makes it the desired one.
func (k *kernelTable) compare(b *nft.Batch, l *desiredTables) error {
	comment, exists, err := k.conn.Comment(k.table())
	if err != nil {
		return err
	}
	needed := l.chains[k.six]
	isComplete, err := k.isComplete(exists && comment == k.layoutDigest(), needed)
	if err != nil {
		return err
	}
	if !isComplete {
		if exists {
			b.DeleteTable(k.table())
		}
		k.build(b)
		k.chains = map[string]bool{}
		var d difference
		for r := range l.all(k.six) {
			d.added = append(d.added, r)
		}
		k.write(b, d)
		return nil
	}
	d, err := k.differences(l)
	if err != nil {
		return err
	}
	k.write(b, d)
	k.prune(b, needed)
	return nil
}

// isComplete reports whether the table has our layout and all rules are in their chains, and records which chains
// exist.
func (k *kernelTable) isComplete(ours bool, needed map[chain]int) (bool, error) {
	if !ours {
		return false, nil
	}
	rules, err := k.conn.Rules(k.table())
	if err != nil {
		return false, err
	}
	for _, c := range k.family.chains() {
		if rules[c.Name] != len(c.rules) {
			return false, nil
		}
		delete(rules, c.Name)
	}
	for c := range needed {
		if n := rules[c.name()]; n != 0 && n != len(k.rules(c)) {
			return false, nil
		}
	}
	k.chains = map[string]bool{}
	for name := range rules {
		k.chains[name] = true
	}
	return true, nil
}

// differences compares the elements of all sets that we write.
func (k *kernelTable) differences(l *desiredTables) (difference, error) {
	var wanted [numberOfSets]map[string]row
	for i := range wanted {
		wanted[i] = map[string]row{}
	}
	for r := range l.all(k.six) {
		wanted[r.set][r.key+r.end] = r
	}
	var d difference
	for set := range numberOfSets {
		if set == affinity {
			continue
		}
		have, err := k.conn.Elements(k.table(), setNames[set])
		if err != nil {
			return d, fmt.Errorf("list %s: %w", setNames[set], err)
		}
		for _, e := range have {
			r, ok := wanted[set][e.Key+e.End]
			if ok && r.data == e.Data && r.chain.name() == e.Goto {
				delete(wanted[set], e.Key+e.End)
				continue
			}
			d.removed = append(d.removed, row{rowKey: rowKey{six: k.six, set: set, key: e.Key, end: e.End}})
		}
		for _, r := range wanted[set] {
			d.added = append(d.added, r)
		}
	}
	return d, nil
}
