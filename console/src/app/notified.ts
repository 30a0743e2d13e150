/** Where the page remembers that this browser receives notifications, and which. */
export const NOTIFIED = 'pilothouse-notifications'
