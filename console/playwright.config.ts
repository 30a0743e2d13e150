import { existsSync } from 'node:fs'
import { defineConfig } from '@playwright/test'

const CHROMIUM = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome']
const args = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-quic',
  '--no-first-run',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
]

export default defineConfig({
  testDir: 'tests',
  outputDir: 'test-results',
  timeout: 60_000,
  expect: { timeout: 15_000 },
  workers: 2,
  forbidOnly: true,
  reporter: 'list',
  use: {
    launchOptions: { executablePath: process.env.CHROMIUM ?? CHROMIUM.find((path) => existsSync(path)), args },
    locale: 'en-GB',
    timezoneId: 'Europe/Berlin',
    trace: 'off',
  },
  projects: [
    { name: 'desktop', use: { viewport: { width: 1440, height: 900 } } },
    // What the server accepts, and how the page connects to it, does not depend on the width.
    { name: 'phone', testIgnore: /(cloud|security|subscription)\.spec\.ts/, use: { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true } },
  ],
})
