package custom

import "strings"

// Unreadable returns why definitions cannot be read or served, by their names: the cache omits those that cannot be
// decrypted or are of no known version, and others turn out to be broken when they are read.
func (d *Definitions) Unreadable() map[string]error {
	all := d.storage.Unreadable() // which is empty, and not nil: the kind is always cached
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, r := range d.known {
		if r.unreadable != nil {
			all[name] = r.unreadable
		}
	}
	return all
}

// groupIn is the group in the name of a definition, which is the plural, a dot and the group.
func groupIn(name string) string {
	_, group, _ := strings.Cut(name, ".")
	return group
}
