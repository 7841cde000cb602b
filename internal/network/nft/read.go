//go:build linux

package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// nfHeader is the size of nfnetlink's header before the attributes.
const nfHeader = 4

// Generation returns a number that changes with each change of nf_tables in this network namespace.
func (c *Conn) Generation() (uint32, error) {
	var id uint32
	err := c.ask(unix.NFT_MSG_GETGEN, 0, 0, nil, func(body []byte) {
		if v := attribute(body, unix.NFTA_GEN_ID); len(v) == 4 {
			id = binary.BigEndian.Uint32(v)
		}
	})
	return id, err
}

// Next is the generation after one transaction. Who asks the kernel for it after a transaction of its own does not see
// what others have written since.
func Next(generation uint32) uint32 {
	if generation++; generation == 0 {
		return 1
	}
	return generation
}

// Comment returns the comment of a table, and whether the table exists.
func (c *Conn) Comment(t Table) (comment string, exists bool, err error) {
	err = c.ask(unix.NFT_MSG_GETTABLE, unix.NLM_F_DUMP, t.Family, nil, func(body []byte) {
		if textOf(attribute(body, unix.NFTA_TABLE_NAME)) != t.Name {
			return
		}
		exists = true
		if data := attribute(body, tableUserData); len(data) > 2 {
			comment = textOf(data[2:])
		}
	})
	return comment, exists, err
}

// Chains returns the names of a table's chains.
func (c *Conn) Chains(t Table) ([]string, error) {
	var all []string
	err := c.ask(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, t.Family, nil, func(body []byte) {
		if textOf(attribute(body, unix.NFTA_CHAIN_TABLE)) == t.Name {
			all = append(all, textOf(attribute(body, unix.NFTA_CHAIN_NAME)))
		}
	})
	return all, err
}

// Rules returns how many rules each chain of a table has.
func (c *Conn) Rules(t Table) (map[string]int, error) {
	all := map[string]int{}
	err := c.ask(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, t.Family, func(a *attributes) { a.text(unix.NFTA_RULE_TABLE, t.Name) }, func(body []byte) {
		if textOf(attribute(body, unix.NFTA_RULE_TABLE)) == t.Name {
			all[textOf(attribute(body, unix.NFTA_RULE_CHAIN))]++
		}
	})
	return all, err
}

// Elements returns the members of a set.
func (c *Conn) Elements(t Table, set string) ([]Element, error) {
	var all []Element
	err := c.ask(unix.NFT_MSG_GETSETELEM, unix.NLM_F_DUMP, t.Family, func(a *attributes) {
		a.text(unix.NFTA_SET_ELEM_LIST_TABLE, t.Name)
		a.text(unix.NFTA_SET_ELEM_LIST_SET, set)
	}, func(body []byte) {
		each(attribute(body, unix.NFTA_SET_ELEM_LIST_ELEMENTS), func(_ uint16, value []byte) { all = append(all, element(value)) })
	})
	return all, err
}

func element(list []byte) Element {
	var e Element
	each(list, func(kind uint16, value []byte) {
		switch kind {
		case unix.NFTA_SET_ELEM_KEY:
			e.Key = string(attribute(value, unix.NFTA_DATA_VALUE))
		case setElemKeyEnd:
			e.End = string(attribute(value, unix.NFTA_DATA_VALUE))
		case unix.NFTA_SET_ELEM_DATA:
			e.Data = string(attribute(value, unix.NFTA_DATA_VALUE))
			e.Goto = textOf(attribute(attribute(value, unix.NFTA_DATA_VERDICT), unix.NFTA_VERDICT_CHAIN))
		case unix.NFTA_SET_ELEM_FLAGS:
			e.Last = binary.BigEndian.Uint32(value)&unix.NFT_SET_ELEM_INTERVAL_END != 0
		case unix.NFTA_SET_ELEM_TIMEOUT:
			e.Timeout = time.Duration(binary.BigEndian.Uint64(value)) * time.Millisecond
		}
	})
	return e
}

// maxAttempts is how often a listing is repeated because it was interrupted by a change.
const maxAttempts = 10

// errChanged reports that a change interrupted a listing.
var errChanged = errors.New("nf_tables: changed while it was being listed")

// ask sends one request and calls f with the attributes of each answer. Answers of an interrupted listing are not
// passed on.
func (c *Conn) ask(kind, flags uint16, family Family, body func(*attributes), f func([]byte)) error {
	for range maxAttempts {
		var answers [][]byte
		err := c.request(kind, flags, family, body, func(b []byte) { answers = append(answers, append([]byte(nil), b...)) })
		if errors.Is(err, errChanged) {
			continue
		}
		for _, a := range answers {
			f(a)
		}
		return err
	}
	return errChanged
}

func (c *Conn) request(kind, flags uint16, family Family, body func(*attributes), f func([]byte)) error {
	if err := c.drain(); err != nil {
		return err
	}
	c.sent++
	var b Batch
	b.raw(unix.NFNL_SUBSYS_NFTABLES<<8|kind, unix.NLM_F_REQUEST|flags, c.sent, uint8(family), 0, body)
	if err := c.send(b.buf); err != nil {
		return err
	}
	changed := false
	for {
		messages, err := c.receive()
		if err != nil {
			return err
		}
		for _, m := range messages {
			switch {
			case m.sequence != c.sent:
				continue
			case m.kind == unix.NLMSG_ERROR:
				return failure(m.body)
			case m.kind == unix.NLMSG_DONE:
				if changed {
					return errChanged
				}
				return failure(m.body)
			case len(m.body) < nfHeader:
				return errors.New("nf_tables: an answer is cut")
			}
			changed = changed || m.flags&unix.NLM_F_DUMP_INTR != 0
			f(m.body[nfHeader:])
			if flags&unix.NLM_F_DUMP == 0 {
				return nil
			}
		}
	}
}

func failure(body []byte) error {
	if len(body) < 4 {
		return nil
	}
	if number := -int32(binary.NativeEndian.Uint32(body)); number != 0 {
		return fmt.Errorf("nf_tables: %w", unix.Errno(number))
	}
	return nil
}
