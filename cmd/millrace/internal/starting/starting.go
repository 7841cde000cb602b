// Package starting switches the garbage collector off while packages are initialized.
//
// The packages that the program is made of allocate some 30 MiB of tables then, which all stay. Collecting several
// times in between is a third of the CPU time of a start. The package imports nothing but the standard library, so it
// is initialized among the first. main must call Done.
package starting

import "runtime/debug"

var percent = debug.SetGCPercent(-1)

// Done gives the garbage collector the setting that it had: the default, or that of GOGC.
func Done() { debug.SetGCPercent(percent) }
