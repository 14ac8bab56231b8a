package sandbox

import "time"

// HurrySpares lets spares live shorter, before the first run.
func (b *Box) HurrySpares(life, look time.Duration) { b.starter.life, b.starter.look = life, look }
