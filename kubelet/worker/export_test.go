package worker

// Probes returns how many probes have results.
func (c *Crew) Probes() int {
	c.probe.mu.Lock()
	defer c.probe.mu.Unlock()
	return len(c.probe.tally)
}
