// Package pressure decides when a node is short of memory, disk or processes, and which pod is evicted.
//
// Guarantees: a pressure condition stays for a while after the shortage has ended, so that pods do not come and go. One
// pod is evicted at a time. Pods above their request go first, then those of lower priority. Critical static pods are
// never evicted.
package pressure
