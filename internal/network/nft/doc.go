// Package nft writes the kernel's nf_tables over netlink: tables, chains, rules, sets and maps, in transactions.
//
//	conn, err := nft.Dial()
//	var b nft.Batch
//	b.AddTable(table)
//	b.AddSet(table, set)
//	b.AddElements(table, set, elements)
//	err = conn.Commit(&b)
//
// # Guarantees
//
//   - Atomic: a Batch takes effect as a whole or not at all. No packet sees half of it.
//   - Direct: no program is started and no text is parsed. Elements are encoded once, into the bytes that the kernel
//     receives.
//   - Honest: an error names the message of the batch that the kernel refused.
//
// A Conn works in the network namespace of the thread that called Dial. Only one goroutine may use it at a time.
//
// The package has only those parts of nf_tables that this module needs.
package nft
