/** What the shell shows over the screen. */
export type Opened = 'palette' | 'shortcuts' | 'dispatch' | 'brake'
